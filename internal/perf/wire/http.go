package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

// HTTP encodes a step as a request of HTTP/1.1, with its headers.
func HTTP(c *Call, step *data.Step) (*Prepared, error) {
	p := &Prepared{Step: step, text: true}
	if step.Body != nil {
		p.Head, p.Tail = httpHead(c, "/"+strings.TrimPrefix(c.Path, "/"), "application/json", len(step.Body), -1), step.Body
		return p, nil
	}
	body, tail, err := httpBody(c, step, p)
	if err != nil {
		return nil, err
	}
	path := ModelPath(c.Model, c.Version)
	length, kind := len(body), "application/octet-stream"
	if c.JSONInput && c.JSONOutput {
		length, kind = -1, "application/json"
	}
	head := httpHead(c, path+"/infer", kind, len(body)+len(tail), length)
	if p.id > 0 {
		p.id, p.start, p.end = p.id+len(head), p.start+len(head), p.end+len(head)
	}
	p.Head, p.Tail = append(head, body...), tail
	return p, nil
}

// asTheyStand takes back what url.PathEscape escapes though a segment has it as it is
// (RFC 3986, pchar): servers look names up as they stand in the path.
var asTheyStand = strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";")

// ModelPath is where a model is asked, version "" for any.
func ModelPath(model, version string) string {
	path := "/v2/models/" + asTheyStand.Replace(url.PathEscape(model))
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

func httpHead(c *Call, path, kind string, length, header int) []byte {
	b := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n", path, c.Host, kind, length)
	if header >= 0 {
		b = fmt.Appendf(b, "Inference-Header-Content-Length: %d\r\n", header)
	}
	for _, h := range c.Headers {
		b = fmt.Appendf(b, "%s: %s\r\n", h[0], h[1])
	}
	return append(b, "\r\n"...)
}

// httpBody is the JSON with the places for the sequence, and the tensors behind it.
func httpBody(c *Call, step *data.Step, p *Prepared) (body, tail []byte, err error) {
	b := []byte("{")
	b = appendParameters(b, c, p)
	b = append(b, `"inputs":[`...)
	for i, t := range step.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendText(b, t.Name)
		b = fmt.Appendf(b, `,"datatype":%q,"shape":%s,`, t.Datatype.String(), t.Shape)
		switch {
		case t.Region != "":
			b = append(b, `"parameters":`...)
			b = appendRegion(b, t.Region, t.Offset, int64(len(t.Bytes)))
		case c.JSONInput:
			b = append(b, `"data":`...)
			if b, err = appendElements(b, &t); err != nil {
				return nil, nil, err
			}
		default:
			b = fmt.Appendf(b, `"parameters":{"binary_data_size":%d}`, len(t.Bytes))
			tail = append(tail, t.Bytes...)
		}
		b = append(b, '}')
	}
	b = append(b, `],"outputs":[`...)
	for i, o := range c.Outputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = append(appendText(b, o.Name), `,"parameters":`...)
		if o.Region != "" {
			b = appendRegion(b, o.Region, o.Offset, o.Size)
		} else {
			b = fmt.Appendf(b, `{"binary_data":%t}`, !c.JSONOutput)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...), tail, nil
}

func appendParameters(b []byte, c *Call, p *Prepared) []byte {
	if !c.Sequence && len(c.Parameters) == 0 {
		return b
	}
	b = append(b, `"parameters":{`...)
	if c.Sequence {
		b = append(b, `"sequence_id":`...)
		p.id = len(b)
		b = append(b, strings.Repeat(" ", idText-1)...)
		b = append(b, `0,"sequence_start":`...)
		p.start = len(b)
		b = append(b, `false,"sequence_end":`...)
		p.end = len(b)
		b = append(b, "false,"...)
	}
	for _, v := range c.Parameters {
		b = append(appendText(b, v.Name), ':')
		value, _ := json.Marshal(v.Value) // a string, a number or a bool never fails
		b = append(append(b, value...), ',')
	}
	return append(b[:len(b)-1], "},"...)
}

func appendRegion(b []byte, name string, offset, size int64) []byte {
	b = append(b, `{"shared_memory_region":`...)
	b = appendText(b, name)
	return fmt.Appendf(b, `,"shared_memory_offset":%d,"shared_memory_byte_size":%d}`, offset, size)
}

func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string never fails
	return append(b, text...)
}

// appendElements appends the elements as one flat list.
func appendElements(b []byte, t *data.Tensor) ([]byte, error) {
	b = append(b, '[')
	if t.Datatype == tensor.Bytes {
		for i, e := range tensor.Elements(t.Bytes) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, string(e))
		}
		return append(b, ']'), nil
	}
	size := t.Datatype.Size()
	if size <= 0 || len(t.Bytes)%size != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of %v elements", len(t.Bytes), t.Datatype)
	}
	for i := 0; i < len(t.Bytes); i += size {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = AppendNumber(b, t.Datatype, t.Bytes[i:i+size]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// AppendNumber appends one little-endian element as JSON.
func AppendNumber(b []byte, d tensor.Datatype, e []byte) ([]byte, error) {
	var bits uint64
	for i, v := range e {
		bits |= uint64(v) << (8 * i)
	}
	switch d {
	case tensor.Bool:
		return strconv.AppendBool(b, bits != 0), nil
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		shift := 64 - 8*len(e)
		return strconv.AppendInt(b, int64(bits<<shift)>>shift, 10), nil
	case tensor.FP32:
		return appendFloat(b, float64(math.Float32frombits(uint32(bits))), 32)
	case tensor.FP64:
		return appendFloat(b, math.Float64frombits(bits), 64)
	case tensor.FP16:
		return appendFloat(b, float64(tensor.FloatFP16(uint16(bits))), 32)
	case tensor.BF16:
		return appendFloat(b, float64(tensor.FloatBF16(uint16(bits))), 32)
	default:
		return strconv.AppendUint(b, bits, 10), nil
	}
}

func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v cannot be written as JSON", f)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits), nil
}

// Elements returns the elements of a tensor as JSON: a list, or for one element it alone.
func Elements(t *data.Tensor) json.RawMessage {
	b, err := appendElements(nil, t)
	if err != nil {
		return json.RawMessage("null")
	}
	if t.Datatype != tensor.Bytes && len(t.Bytes) == t.Datatype.Size() || t.Datatype == tensor.Bytes && bytes.Count(b, []byte(`","`)) == 0 {
		return b[1 : len(b)-1]
	}
	return b
}
