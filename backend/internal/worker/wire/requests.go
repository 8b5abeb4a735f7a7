package wire

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

const (
	requestBlockSize = 56
	// flagRequested in a request block says that only the listed outputs are wanted.
	flagRequested = 4
	// highestFlag of a request has no room among the flags of its block: it is the same bit of
	// the batch size, which is an int32 in configurations.
	highestFlag = 1 << 31
)

// Placer says where a tensor's data lies for the other side.
type Placer interface {
	// Put places one of the inputs of a request or batch.
	Put(of []tensor.Tensor, i int) Place
}

// Encoder holds the scratch space of one connection for building frames.
type Encoder struct {
	patches []patch
	params  []byte
}

type patch struct {
	at   int
	data []byte
}

// entry appends the entry of t and remembers its data when it goes inline.
func (e *Encoder) entry(dst []byte, base, index int, t *tensor.Tensor, at Place) ([]byte, error) {
	dst, p, err := appendEntry(dst, base, index, t, at)
	if err == nil && at.Segment == InlineSegment {
		e.patches = append(e.patches, patch{p, t.Data})
	}
	return dst, err
}

// inline appends the remembered data, and fills up to a multiple of 8 so that
// the next frame's data is aligned too.
func (e *Encoder) inline(dst []byte, base int) []byte {
	for i := range e.patches {
		dst = patchInline(dst, base, e.patches[i].at, e.patches[i].data)
	}
	e.reset()
	return pad8(dst, base)
}

func (e *Encoder) reset() {
	clear(e.patches)
	e.patches = e.patches[:0]
}

// requestBlock appends one request block. Inputs and wanted outputs are
// numbered by the tables; with nil tables inputs go by name and the wanted
// outputs are left out.
func (e *Encoder) requestBlock(dst []byte, base int, handle uint64, r *backend.Request, tables *Tables, at Placer) ([]byte, error) {
	if len(r.ID) >= 1<<16 || len(r.Correlation.Text) >= 1<<16 {
		return dst, backend.Errorf(backend.InvalidArg, "request id and correlation id may have at most 65535 bytes")
	}
	if len(r.Inputs) >= 1<<16 {
		return dst, backend.Errorf(backend.InvalidArg, "a request may have at most 65535 inputs")
	}
	flags, size, requested := packFlags(r.Flags), uint32(r.BatchSize)|uint32(r.Flags)&highestFlag, 0
	if tables != nil && !tables.allOutputs(r.Requested) {
		flags |= flagRequested
		for _, name := range r.Requested {
			if tables.Output(name) >= 0 {
				requested++
			}
		}
	}
	e.params = appendParameters(e.params[:0], r.Parameters)
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, handle)
	dst = le.AppendUint64(dst, r.Correlation.Number)
	dst = le.AppendUint64(dst, r.Timeout)
	dst = le.AppendUint64(dst, r.Priority)
	dst = le.AppendUint32(dst, flags)
	dst = le.AppendUint32(dst, size)
	dst = le.AppendUint16(dst, uint16(len(r.Inputs)))
	dst = le.AppendUint16(dst, uint16(requested))
	dst = le.AppendUint16(dst, uint16(len(r.ID)))
	dst = le.AppendUint16(dst, uint16(len(r.Correlation.Text)))
	dst = le.AppendUint32(dst, uint32(len(e.params)))
	dst = le.AppendUint32(dst, uint32(len(r.Trace)))
	dst = append(dst, r.ID...)
	dst = append(dst, r.Correlation.Text...)
	dst = append(dst, e.params...)
	dst = append(dst, r.Trace...)
	if requested > 0 {
		for _, name := range r.Requested {
			if i := tables.Output(name); i >= 0 {
				dst = le.AppendUint16(dst, uint16(i))
			}
		}
	}
	dst = pad8(dst, base)
	var err error
	for i := range r.Inputs {
		t := &r.Inputs[i]
		index := -1
		if tables != nil {
			index = tables.Input(t.Name, i)
		}
		if dst, err = e.entry(dst, base, index, t, at.Put(r.Inputs, i)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// AppendExecute appends an EXECUTE frame for the requests. On an error dst
// comes back as it was.
func (e *Encoder) AppendExecute(
	dst []byte, instance uint32, id uint64, requests []*backend.Request, handles []uint64, tables *Tables, at Placer,
) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, KindExecute, instance, id)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(requests)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	var err error
	for i, r := range requests {
		if dst, err = e.requestBlock(dst, base, handles[i], r, tables, at); err != nil {
			e.reset()
			return dst[:begin], err
		}
	}
	return endFrame(e.inline(dst, base), base)
}

// RequestBlock is a decoded request block; its byte fields view the frame.
type RequestBlock struct {
	Handle, Correlation, Timeout, Priority uint64
	Flags, BatchSize                       uint32
	ID, CorrelationText, Parameters, Trace []byte
	Requested                              []int
	Inputs                                 []Entry
	highest                                uint32 // highestFlag, or 0
}

// packFlags makes room for flagRequested: what means nothing to the server is moved up by a
// bit, all but highestFlag.
func packFlags(f backend.Flags) uint32 { return uint32(f)&3 | uint32(f)>>2<<3 }

// RequestFlags are the flags of the request itself.
func (r *RequestBlock) RequestFlags() backend.Flags {
	return backend.Flags(r.Flags&3 | r.Flags>>3<<2 | r.highest)
}

// OnlyRequested reports whether only the outputs of Requested are wanted.
func (r *RequestBlock) OnlyRequested() bool { return r.Flags&flagRequested != 0 }

func (c *Cursor) requestBlock() (r RequestBlock, inline bool) {
	start := c.off
	b := c.take(requestBlockSize, "request block")
	if b == nil {
		return r, false
	}
	le := binary.LittleEndian
	r.Handle, r.Correlation, r.Timeout, r.Priority = le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	r.Flags, r.BatchSize = le.Uint32(b[32:]), le.Uint32(b[36:])
	r.highest = r.BatchSize & highestFlag
	r.BatchSize &^= highestFlag
	inputs, requested := int(le.Uint16(b[40:])), int(le.Uint16(b[42:]))
	if requested > 0 && !r.OnlyRequested() {
		c.Fail("requested", start+42, "%d without the flag", requested)
	}
	r.ID = c.take(int(le.Uint16(b[44:])), "id")
	r.CorrelationText = c.take(int(le.Uint16(b[46:])), "correlation text")
	r.Parameters = c.take(int(le.Uint32(b[48:])), "parameters")
	r.Trace = c.take(int(le.Uint32(b[52:])), "trace")
	wanted := c.take(2*requested, "requested")
	for i := 0; i < len(wanted); i += 2 {
		r.Requested = append(r.Requested, int(le.Uint16(wanted[i:])))
	}
	c.align()
	if need := inputs * entrySize; c.err == nil && need > len(c.body)-c.off {
		c.Fail("inputs", start+40, "%d entries do not fit", inputs)
	}
	for range inputs {
		if c.err != nil {
			return r, inline
		}
		e, _ := c.Entry(nil)
		inline = inline || e.Inline()
		r.Inputs = append(r.Inputs, e)
	}
	return r, inline
}

// DecodeExecute decodes the body of an EXECUTE frame. The server only sends
// it; workers in Go and the tests read it.
func DecodeExecute(body []byte) ([]RequestBlock, error) {
	c := Cursor{kind: KindExecute, body: body}
	n, reserved := c.u32("count"), c.u32("reserved")
	if reserved != 0 {
		c.Fail("reserved", 4, "%d, expected 0", reserved)
	}
	if uint64(n)*requestBlockSize > uint64(len(body)) {
		c.Fail("count", 0, "%d requests do not fit", n)
	}
	var all []RequestBlock
	inline := false
	for range n {
		if c.err != nil {
			return nil, c.err
		}
		r, in := c.requestBlock()
		inline = inline || in
		all = append(all, r)
	}
	if err := c.skipInline(inline); err != nil {
		return nil, err
	}
	return all, nil
}
