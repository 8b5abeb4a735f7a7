package jsonwire

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Response is a response in its wire form: JSON, then the bytes of Tail in
// order. It is reused from response to response.
type Response struct {
	JSON []byte
	// Tail views the memory of the outputs; it is valid as long as they are.
	Tail [][]byte
	// TailSize is the sum of the sizes in Tail. Above zero the reply is binary.
	TailSize int
}

// Reset makes w ready for the next response. It lets go of a JSON buffer above
// keep bytes.
func (w *Response) Reset(keep int) {
	clear(w.Tail)
	w.Tail, w.TailSize = w.Tail[:0], 0
	if w.JSON = w.JSON[:0]; cap(w.JSON) > keep {
		w.JSON = nil
	}
}

// Labels returns the class labels of an output, or nil.
type Labels func(output string) []string

// Encode writes a response, which it borrows as long as w is in use. Classified
// outputs replace those in resp. An error is one for the client.
func Encode(w *Response, cfg *modelconfig.Config, id string, version int64, resp *backend.Response, c *kserve.ResponseOptions,
	labels Labels,
) *backend.Error {
	b := append(w.JSON[:0], '{')
	if id != "" {
		b = append(b, `"id":`...)
		b = append(appendValid(b, id), ',')
	}
	b = append(b, `"model_name":`...)
	b = appendText(b, cfg.Name)
	b = append(b, `,"model_version":"`...)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, '"')
	if len(resp.Parameters) > 0 {
		b = append(b, `,"parameters":{`...)
		for i, p := range resp.Parameters {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendParameter(b, p)
		}
		b = append(b, '}')
	}
	b = append(b, `,"outputs":[`...)
	for i := range resp.Outputs {
		o := &resp.Outputs[i]
		want := c.Output(o.Name)
		if want.Classes > 0 {
			if err := kserve.Classify(o, want.Classes, cfg.MaxBatchSize > 0, labelsOf(labels, o.Name)); err != nil {
				return err
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendValid(b, o.Name)
		b = append(b, `,"datatype":"`...)
		b = append(b, o.Datatype.String()...)
		b = append(b, `","shape":`...)
		b, _ = o.Shape.AppendText(b)
		if !want.Region.IsZero() {
			if err := want.Place(o); err != nil {
				return err
			}
			b = append(b, '}')
			continue
		}
		if want.Binary {
			b = append(b, `,"parameters":{"binary_data_size":`...)
			b = strconv.AppendInt(b, int64(len(o.Data)), 10)
			b = append(b, `}}`...)
			if len(o.Data) > 0 {
				w.Tail = append(w.Tail, o.Data)
				w.TailSize += len(o.Data)
			}
			continue
		}
		b = append(b, `,"data":[`...)
		var ok bool
		if b, ok = appendData(b, o.Datatype, o.Data); !ok {
			return unsendable(o.Datatype)
		}
		b = append(b, `]}`...)
	}
	w.JSON = append(b, `]}`...)
	return nil
}

// unsendable is the error for an output that has no JSON form.
func unsendable(d tensor.Datatype) *backend.Error {
	return kserve.Invalid("sending " + d.String() + " data via JSON is not supported. Please use the binary data format for output")
}

func labelsOf(labels Labels, output string) []string {
	if labels == nil {
		return nil
	}
	return labels(output)
}

func appendParameter(b []byte, p backend.Parameter) []byte {
	b = append(appendValid(b, p.Name), ':')
	switch p.Kind {
	case backend.IntParameter:
		return strconv.AppendInt(b, p.Int64(), 10)
	case backend.UintParameter:
		return strconv.AppendUint(b, p.Uint64(), 10)
	case backend.BoolParameter:
		return strconv.AppendBool(b, p.IsTrue())
	case backend.DoubleParameter:
		return jsonscan.AppendDouble(b, p.Float64())
	default:
		return appendValid(b, p.Text())
	}
}

// appendData appends the elements, separated by commas. It reports false for
// datatypes that have no JSON form.
func appendData(b []byte, d tensor.Datatype, data []byte) ([]byte, bool) {
	n := len(b)
	le := binary.LittleEndian
	switch d {
	case tensor.FP32:
		for ; len(data) >= 4; data = data[4:] {
			b = append(jsonscan.AppendFloat(b, math.Float32frombits(le.Uint32(data))), ',')
		}
	case tensor.FP64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(jsonscan.AppendDouble(b, math.Float64frombits(le.Uint64(data))), ',')
		}
	case tensor.Bool:
		for _, v := range data {
			b = append(strconv.AppendBool(b, v != 0), ',')
		}
	case tensor.Int8:
		for _, v := range data {
			b = append(strconv.AppendInt(b, int64(int8(v)), 10), ',')
		}
	case tensor.Uint8:
		for _, v := range data {
			b = append(strconv.AppendUint(b, uint64(v), 10), ',')
		}
	case tensor.Int16:
		for ; len(data) >= 2; data = data[2:] {
			b = append(strconv.AppendInt(b, int64(int16(le.Uint16(data))), 10), ',')
		}
	case tensor.Uint16:
		for ; len(data) >= 2; data = data[2:] {
			b = append(strconv.AppendUint(b, uint64(le.Uint16(data)), 10), ',')
		}
	case tensor.Int32:
		for ; len(data) >= 4; data = data[4:] {
			b = append(strconv.AppendInt(b, int64(int32(le.Uint32(data))), 10), ',')
		}
	case tensor.Uint32:
		for ; len(data) >= 4; data = data[4:] {
			b = append(strconv.AppendUint(b, uint64(le.Uint32(data)), 10), ',')
		}
	case tensor.Int64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(strconv.AppendInt(b, int64(le.Uint64(data)), 10), ',')
		}
	case tensor.Uint64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(strconv.AppendUint(b, le.Uint64(data), 10), ',')
		}
	case tensor.Bytes:
		for _, e := range tensor.Elements(data) {
			b = append(appendText(b, e), ',')
		}
	default:
		return b, false
	}
	if len(b) > n {
		b = b[:len(b)-1]
	}
	return b, true
}

// appendText appends a JSON string. Bytes above 0x7F go out as they are.
func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if jsonscan.Plain[c] {
			continue
		}
		b = append(b, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, text[from:]...), '"')
}

// AppendError appends the body of an error reply. Text that is not UTF-8, such as
// a name of the client's, is made so: elements of tensors go out as they are, but
// an error that cannot be parsed says nothing.
func AppendError(b []byte, text string) []byte {
	return append(appendValid(append(b, `{"error":`...), text), '}')
}

// appendValid appends text of a client's or a model's, an id for instance, made
// valid UTF-8: else nobody can parse what it stands in. Elements of tensors go out
// as they are.
func appendValid(b []byte, text string) []byte {
	return appendText(b, strings.ToValidUTF8(text, "\uFFFD"))
}
