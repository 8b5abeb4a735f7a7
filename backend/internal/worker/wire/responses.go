package wire

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

const (
	responseBlockSize = 24
	// NoError is the error code of a response that is none.
	NoError = 0xFF
)

// Flags of a response block.
const (
	ResponseFinal    = 1 // the last one of its request
	ResponseNone     = 2 // no response, only the final mark
	ResponseRetained = 4 // the worker still reads the request's inputs
	ResponseAgain    = 8 // no response: the request is to run again
)

// FlagEnds in the head of RESPONSES and RESULT_BATCH says that the batch is done.
const FlagEnds = 1

// ResponseBlock is a decoded response block without its entries, which follow
// on the cursor; its byte fields view the frame.
type ResponseBlock struct {
	Handle              uint64
	Flags               uint32
	Code                uint8 // NoError, or a backend.Code
	Outputs             int
	Message, Parameters []byte
}

// ResponseBlock reads a response block up to its entries.
func (c *Cursor) ResponseBlock() (r ResponseBlock) {
	start := c.off
	b := c.take(responseBlockSize, "response block")
	if b == nil {
		return r
	}
	le := binary.LittleEndian
	r.Handle, r.Flags, r.Code, r.Outputs = le.Uint64(b), le.Uint32(b[8:]), b[12], int(le.Uint16(b[14:]))
	message, params := le.Uint32(b[16:]), le.Uint32(b[20:])
	switch {
	case r.Flags&^15 != 0:
		c.Fail("flags", start+8, "0x%X has unknown bits", r.Flags)
	case r.Flags&ResponseAgain != 0 && r.Flags&(ResponseFinal|ResponseNone) != ResponseNone:
		c.Fail("flags", start+8, "run again with a response or final mark")
	case r.Flags&(ResponseFinal|ResponseNone|ResponseAgain) == ResponseNone:
		c.Fail("flags", start+8, "no response and not final")
	case r.Code != NoError && r.Code > uint8(backend.Cancelled):
		c.Fail("error code", start+12, "%d is unknown", r.Code)
	case b[13] != 0:
		c.Fail("reserved", start+13, "%d, expected 0", b[13])
	case r.Outputs > 0 && (r.Flags&ResponseNone != 0 || r.Code != NoError):
		c.Fail("outputs", start+14, "%d in a response without outputs", r.Outputs)
	}
	r.Message = c.take(int(message), "message")
	r.Parameters = c.take(int(params), "parameters")
	c.align()
	if c.err == nil && r.Outputs*entrySize > len(c.body)-c.off {
		c.Fail("outputs", start+14, "%d entries do not fit", r.Outputs)
	}
	return r
}

// ResponsesHead reads the head of RESPONSES or INFER_RESPONSES.
func (c *Cursor) ResponsesHead() (n int, ends bool) {
	count, flags := c.u32("count"), c.u32("flags")
	if flags&^FlagEnds != 0 {
		c.Fail("flags", 4, "0x%X has unknown bits", flags)
	}
	if uint64(count)*responseBlockSize > uint64(len(c.body)) {
		c.Fail("count", 0, "%d responses do not fit", count)
	}
	return int(count), flags&FlagEnds != 0
}

// DecodedResponse is a response block with its entries.
type DecodedResponse struct {
	ResponseBlock
	Entries []Entry
}

// DecodeResponses decodes a whole RESPONSES or INFER_RESPONSES body.
func DecodeResponses(kind Kind, body []byte) (all []DecodedResponse, ends bool, err error) {
	c := Cursor{kind: kind, body: body}
	n, ends := c.ResponsesHead()
	inline := false
	for range n {
		if c.err != nil {
			return nil, false, c.err
		}
		r := DecodedResponse{ResponseBlock: c.ResponseBlock()}
		for range r.Outputs {
			if c.err != nil {
				return nil, false, c.err
			}
			e, _ := c.Entry(nil)
			inline = inline || e.Inline()
			r.Entries = append(r.Entries, e)
		}
		all = append(all, r)
	}
	if err := c.skipInline(inline); err != nil {
		return nil, false, err
	}
	return all, ends, nil
}

// Outgoing is a response on its way to a worker: an answer to a BLS call, or
// what a worker written in Go gives.
type Outgoing struct {
	Handle     uint64
	Flags      uint32
	Err        *backend.Error
	Parameters []backend.Parameter
	Outputs    []tensor.Tensor
	Indices    []int // nil: by name
	Places     []Place
}

// AppendResponses appends a frame of responses. On an error dst comes back as it was.
func (e *Encoder) AppendResponses(dst []byte, kind Kind, instance uint32, id uint64, flags uint32, responses []Outgoing) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, kind, instance, id)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(responses)))
	dst = le.AppendUint32(dst, flags)
	for i := range responses {
		r := &responses[i]
		code, message := byte(NoError), ""
		if r.Err != nil {
			code, message = byte(r.Err.Code), r.Err.Message
		}
		e.params = appendParameters(e.params[:0], r.Parameters)
		if len(r.Outputs) >= 1<<16 {
			e.reset()
			return dst[:begin], backend.Errorf(backend.Internal, "a response may have at most 65535 outputs")
		}
		dst = le.AppendUint64(dst, r.Handle)
		dst = le.AppendUint32(dst, r.Flags)
		dst = append(dst, code, 0)
		dst = le.AppendUint16(dst, uint16(len(r.Outputs)))
		dst = le.AppendUint32(dst, uint32(len(message)))
		dst = le.AppendUint32(dst, uint32(len(e.params)))
		dst = append(dst, message...)
		dst = append(dst, e.params...)
		dst = pad8(dst, base)
		for j := range r.Outputs {
			index, at := -1, Place{Segment: InlineSegment}
			if r.Indices != nil {
				index = r.Indices[j]
			}
			if r.Places != nil {
				at = r.Places[j]
			}
			var err error
			if dst, err = e.entry(dst, base, index, &r.Outputs[j], at); err != nil {
				e.reset()
				return dst[:begin], err
			}
		}
	}
	return endFrame(e.inline(dst, base), base)
}
