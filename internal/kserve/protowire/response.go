package protowire

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// MaxSize is the largest message, in either direction.
const MaxSize = math.MaxInt32

// paramFinal says on every response of a stream whether it is the request's
// last one.
const paramFinal = "triton_final_response"

// Finality is whether a response on a stream is its request's last one.
type Finality uint8

// NotStreamed leaves the mark out, as ModelInfer and errors of the front end do.
const (
	NotStreamed Finality = iota
	MoreFollow
	LastOne
)

// Response is a ModelInferResponse, or with Stream set a
// ModelStreamInferResponse, to be written.
type Response struct {
	ModelName, ModelVersion, ID string
	Outputs                     []tensor.Tensor
	Parameters                  []backend.Parameter
	Final                       Finality
	// Stream wraps the response for ModelStreamInfer. ErrorMessage makes it an
	// error there.
	Stream       bool
	ErrorMessage string

	// From Size: the whole message, and the ModelInferResponse within it.
	size, inner int
}

// Version formats a version number for ModelVersion.
func Version(n int64) string {
	if n == 1 {
		return "1"
	}
	return strconv.FormatInt(n, 10)
}

// Size returns the encoded size. It fails when the message would be larger than
// the protocol can carry.
func (p *Response) Size() (int, *backend.Error) {
	n := sizeText(p.ModelName) + sizeText(p.ModelVersion) + sizeText(p.ID)
	for i := range p.Parameters {
		n += sizeField(sizeEntry(&p.Parameters[i]))
	}
	if p.Final != NotStreamed {
		final := p.final()
		n += sizeField(sizeEntry(&final))
	}
	for i := range p.Outputs {
		n += sizeField(sizeOutput(&p.Outputs[i])) + sizeField(len(p.Outputs[i].Data))
	}
	p.inner = n
	if p.Stream {
		n = sizeField(n) + sizeText(p.ErrorMessage)
	}
	p.size = n
	if n > MaxSize {
		return n, backend.Errorf(backend.InvalidArg, "Response has byte size %d which exceeds gRPC's byte size limit %d.", n, MaxSize)
	}
	return n, nil
}

func (p *Response) final() backend.Parameter {
	return backend.Bool(paramFinal, p.Final == LastOne)
}

// appendHead appends everything up to the first raw_output_contents. Size was
// called before.
func (p *Response) appendHead(b []byte) []byte {
	if p.Stream {
		b = appendText(b, 1, p.ErrorMessage)
		b = appendLength(b, 2, p.inner)
	}
	b = appendText(b, 1, p.ModelName)
	b = appendText(b, 2, p.ModelVersion)
	b = appendText(b, 3, p.ID)
	for i := range p.Parameters {
		b = appendEntry(b, 4, &p.Parameters[i])
	}
	if p.Final != NotStreamed {
		final := p.final()
		b = appendEntry(b, 4, &final)
	}
	for i := range p.Outputs {
		b = appendOutput(b, 5, &p.Outputs[i])
	}
	return b
}

func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeField returns the size of a length-delimited field of n bytes whose
// number is below 16, which all of this protocol's are.
func sizeField(n int) int { return 1 + sizeVarint(uint64(n)) + n }

// sizeText returns the size of a string field, which is left out when empty.
func sizeText(s string) int {
	if s == "" {
		return 0
	}
	return sizeField(len(text(s)))
}

// text makes a string fit for the wire: clients reject a whole message for one
// invalid byte, and error texts and parameters come from anywhere.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendLength(b []byte, num, n int) []byte {
	return appendVarint(append(b, byte(num)<<3|byte(wireBytes)), uint64(n))
}

func appendText(b []byte, num int, s string) []byte {
	if s == "" {
		return b
	}
	s = text(s)
	return append(appendLength(b, num, len(s)), s...)
}

// sizeValue returns the size of an InferParameter. A value is written also when
// it is zero: a oneof says which kind was set.
func sizeValue(p *backend.Parameter) int {
	switch p.Kind {
	case backend.BoolParameter:
		return 2
	case backend.DoubleParameter:
		return 9
	case backend.IntParameter, backend.UintParameter:
		return 1 + sizeVarint(p.Uint64())
	default:
		return sizeField(len(text(p.Text())))
	}
}

// sizeEntry returns the size of an entry of map<string, InferParameter>.
func sizeEntry(p *backend.Parameter) int {
	return sizeField(len(text(p.Name))) + sizeField(sizeValue(p))
}

func appendEntry(b []byte, num int, p *backend.Parameter) []byte {
	name := text(p.Name)
	b = appendLength(b, num, sizeEntry(p))
	b = append(appendLength(b, 1, len(name)), name...)
	b = appendLength(b, 2, sizeValue(p))
	switch p.Kind {
	case backend.BoolParameter:
		return append(b, 1<<3|byte(wireVarint), byte(p.Uint64()))
	case backend.DoubleParameter:
		b = append(b, 4<<3|byte(wire64))
		v := p.Uint64()
		return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	case backend.IntParameter:
		return appendVarint(append(b, 2<<3|byte(wireVarint)), p.Uint64())
	case backend.UintParameter:
		return appendVarint(append(b, 5<<3|byte(wireVarint)), p.Uint64())
	default:
		s := text(p.Text())
		return append(appendLength(b, 3, len(s)), s...)
	}
}

func sizeShape(s tensor.Shape) int {
	n := 0
	for _, d := range s {
		n += sizeVarint(uint64(d))
	}
	return n
}

// sizeOutput returns the size of an InferOutputTensor.
func sizeOutput(t *tensor.Tensor) int {
	n := sizeText(t.Name) + sizeText(t.Datatype.String())
	if len(t.Shape) > 0 {
		n += sizeField(sizeShape(t.Shape))
	}
	return n
}

func appendOutput(b []byte, num int, t *tensor.Tensor) []byte {
	b = appendLength(b, num, sizeOutput(t))
	b = appendText(b, 1, t.Name)
	b = appendText(b, 2, t.Datatype.String())
	if len(t.Shape) > 0 {
		b = appendLength(b, 3, sizeShape(t.Shape))
		for _, d := range t.Shape {
			b = appendVarint(b, uint64(d))
		}
	}
	return b
}
