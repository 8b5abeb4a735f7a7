package responsecache

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// An entry as bytes, little-endian, for a store that is shared:
//
//	"NSRC" version(1) 0 0 0, key[32], outputs u32, parameters u32,
//	per output: name (u16 length), datatype u8, rank u8, dimensions i64 each, bytes u64,
//	per parameter: name (u16 length), kind u8, value (u32 length, text or 8 bytes),
//	the bytes of the outputs in their order.
//
// Whoever may write there may write anything, so decoding believes nothing: all
// sizes are checked against what is there, and against each other, before any
// memory is taken. The key inside keeps a value from being served under another.
const (
	magic         = "NSRC"
	formatVersion = 1
	headSize      = len(magic) + 4 + len(Key{}) + 8
	// MaxValue bounds the bytes of an entry in a shared store.
	MaxValue = 64 << 20

	leastOutput    = 2 + 1 + 1 + 8
	leastParameter = 2 + 1 + 4
	maxRank        = 64
	// maxCount bounds outputs and parameters: what describes one takes more memory
	// here than in the value.
	maxCount = 1 << 14
)

var (
	errShort   = errors.New("the value is cut off")
	errFormat  = errors.New("the value is not a response of this format")
	errKey     = errors.New("the value belongs to another key")
	errTensor  = errors.New("a tensor of the value contradicts itself")
	errTooLong = errors.New("the value is too long")
)

// encodedSize returns the size of the entry as bytes, or false when it cannot
// be one.
func encodedSize(e *Entry) (int, bool) {
	n := headSize
	if len(e.outputs) > maxCount || len(e.parameters) > maxCount {
		return 0, false
	}
	for i := range e.outputs {
		t := &e.outputs[i]
		if len(t.Name) > math.MaxUint16 || len(t.Shape) > maxRank {
			return 0, false
		}
		n += leastOutput + len(t.Name) + 8*len(t.Shape) + len(t.Data)
	}
	for _, p := range e.parameters {
		if len(p.Name) > math.MaxUint16 || len(p.Text()) > MaxValue {
			return 0, false
		}
		n += leastParameter + len(p.Name) + max(8, len(p.Text()))
	}
	return n, n <= MaxValue
}

// encode appends the entry.
func encode(b []byte, k Key, e *Entry) []byte {
	le := binary.LittleEndian
	b = append(b, magic...)
	b = append(b, formatVersion, 0, 0, 0)
	b = append(b, k[:]...)
	b = le.AppendUint32(b, uint32(len(e.outputs)))
	b = le.AppendUint32(b, uint32(len(e.parameters)))
	for i := range e.outputs {
		t := &e.outputs[i]
		b = le.AppendUint16(b, uint16(len(t.Name)))
		b = append(b, t.Name...)
		b = append(b, byte(t.Datatype), byte(len(t.Shape)))
		for _, d := range t.Shape {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint64(b, uint64(len(t.Data)))
	}
	for _, p := range e.parameters {
		b = le.AppendUint16(b, uint16(len(p.Name)))
		b = append(b, p.Name...)
		b = append(b, byte(p.Kind))
		if p.Kind == backend.StringParameter {
			b = le.AppendUint32(b, uint32(len(p.Text())))
			b = append(b, p.Text()...)
		} else {
			b = le.AppendUint32(b, 8)
			b = le.AppendUint64(b, p.Uint64())
		}
	}
	for i := range e.outputs {
		b = append(b, e.outputs[i].Data...)
	}
	return b
}

// decode makes an entry of foreign bytes, in memory of its own and with one
// reference. b is borrowed.
func decode(b []byte, k Key, a tensor.Allocator) (*Entry, error) {
	if len(b) > MaxValue {
		return nil, errTooLong
	}
	r := reader{rest: b}
	head := r.take(headSize)
	if r.short || string(head[:4]) != magic || head[4] != formatVersion {
		return nil, errFormat
	}
	if Key(head[8:8+len(k)]) != k {
		return nil, errKey
	}
	le := binary.LittleEndian
	outputs, parameters := uint64(le.Uint32(head[40:])), uint64(le.Uint32(head[44:]))
	if outputs > maxCount || parameters > maxCount {
		return nil, errTooLong
	}
	if outputs*leastOutput+parameters*leastParameter > uint64(len(r.rest)) {
		return nil, errShort
	}
	e := &Entry{outputs: make([]tensor.Tensor, outputs)}
	data, space := uint64(0), 0
	sizes := make([]int, outputs)
	for i := range e.outputs {
		n := r.tensor(&e.outputs[i])
		// What is left bounds the sum before it is formed.
		if r.short || n > uint64(len(r.rest)) || data+n > uint64(len(r.rest)) {
			return nil, errShort
		}
		data += n
		sizes[i] = int(n)
		space += tensor.Align(int(n))
	}
	for range parameters {
		p, ok := r.parameter()
		if !ok {
			return nil, errFormat
		}
		e.parameters = append(e.parameters, p)
	}
	if r.short || uint64(len(r.rest)) != data {
		return nil, errShort
	}
	for i, n := range sizes {
		e.outputs[i].Data = r.take(n)
	}
	if err := e.settle(space, a); err != nil {
		return nil, err
	}
	for i := range e.outputs { // as copied: who has stored the bytes may still change them
		if !consistent(&e.outputs[i]) {
			e.Release()
			return nil, errTensor
		}
	}
	return e, nil
}

// settle copies the tensors, which view foreign bytes, into memory of the entry.
func (e *Entry) settle(space int, a tensor.Allocator) error {
	var err error
	if e.buffer, err = a.Allocate(space); err != nil {
		return err
	}
	at := 0
	for i := range e.outputs {
		t := &e.outputs[i]
		n := copy(e.buffer.Bytes()[at:], t.Data)
		t.Data, t.Buffer = e.buffer.Bytes()[at:at+n:at+n], e.buffer
		at += tensor.Align(n)
	}
	return nil
}

// consistent reports whether datatype, shape and bytes of a tensor agree.
func consistent(t *tensor.Tensor) bool {
	if !t.Datatype.Valid() || t.Shape.HasWildcard() {
		return false
	}
	elements, err := t.Shape.Elements()
	if err != nil {
		return false
	}
	if t.Datatype == tensor.Bytes {
		n, err := tensor.CountBytes(t.Data)
		return err == nil && int64(n) == elements
	}
	size, err := tensor.ByteSize(t.Datatype, t.Shape)
	return err == nil && size == int64(len(t.Data))
}

// reader takes from the front of foreign bytes; once short, it gives nothing.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n < 0 || n > len(r.rest) {
		r.short = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number(n int) uint64 {
	b := r.take(n)
	if r.short {
		return 0
	}
	v := uint64(0)
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// tensor reads what describes a tensor and returns the size of its bytes.
func (r *reader) tensor(t *tensor.Tensor) uint64 {
	t.Name = string(r.take(int(r.number(2))))
	t.Datatype = tensor.Datatype(r.number(1))
	rank := int(r.number(1))
	if rank > maxRank {
		r.short = true
	}
	dims := r.take(8 * rank)
	if r.short {
		return 0
	}
	t.Shape = make(tensor.Shape, rank)
	for i := range t.Shape {
		t.Shape[i] = int64(binary.LittleEndian.Uint64(dims[8*i:]))
	}
	return r.number(8)
}

func (r *reader) parameter() (p backend.Parameter, ok bool) {
	name := string(r.take(int(r.number(2))))
	kind := backend.ParameterKind(r.number(1))
	value := reader{rest: r.take(int(r.number(4)))}
	if r.short {
		return p, false
	}
	if kind == backend.StringParameter {
		return backend.String(name, string(value.rest)), true
	}
	bits := value.number(8)
	if value.short || len(value.rest) > 0 {
		return p, false
	}
	switch kind {
	case backend.IntParameter:
		return backend.Int(name, int64(bits)), true
	case backend.UintParameter:
		return backend.Uint(name, bits), true
	case backend.BoolParameter:
		return backend.Bool(name, bits != 0), true
	case backend.DoubleParameter:
		return backend.Double(name, math.Float64frombits(bits)), true
	default:
		return p, false
	}
}
