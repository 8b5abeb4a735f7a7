package tracing

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

// appendTrace writes a trace as the peer does: JSON objects with a comma between
// them, one for each request, moment and tensor. There may be none.
func appendTrace(b []byte, tr *Trace) []byte {
	from := len(b)
	times := tr.sampler.settings.Level&Timestamps != 0
	object := func(id uint64) {
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = strconv.AppendUint(b, id, 10)
	}
	stamp := func(id uint64, name string, ns int64) {
		object(id)
		b = append(b, `,"timestamps":[{"name":`...)
		b = appendString(b, name) // it may be a model's
		b = append(b, `,"ns":`...)
		b = strconv.AppendInt(b, ns+steady, 10)
		b = append(b, `}]}`...)
	}
	for i, n := range tr.nodes {
		front := tr.events
		if i > 0 {
			front = nil
		}
		if times {
			for len(front) > 0 && len(tr.events)-len(front) < tr.sent {
				stamp(n.id, front[0].name, front[0].ns)
				front = front[1:]
			}
			if n.begun {
				object(n.id)
				b = append(b, `,"model_name":`...)
				b = appendString(b, n.model)
				b = append(b, `,"model_version":`...)
				b = strconv.AppendInt(b, n.version, 10)
				if n.request != "" {
					b = append(b, `,"request_id":`...)
					b = appendString(b, n.request)
				}
				if n.parent != 0 {
					b = append(b, `,"parent_id":`...)
					b = strconv.AppendUint(b, n.parent, 10)
				}
				b = append(appendRoute(b, n.route), '}')
			}
		}
		tensors := n.tensors
		putTensors := func() {
			for _, t := range tensors {
				object(n.id)
				b = append(b, `,"activity":"`...)
				b = append(b, t.activity...)
				b = append(b, `","tensor":`...)
				b = append(b, t.json...)
				b = append(b, '}')
			}
			tensors = nil
		}
		if !times {
			putTensors()
			continue
		}
		n.phases(func(name string, ns int64, _ bool) {
			if name != "REQUEST_START" && name != "QUEUE_START" {
				putTensors()
			}
			for len(front) > 0 && front[0].ns < ns {
				stamp(n.id, front[0].name, front[0].ns)
				front = front[1:]
			}
			stamp(n.id, name, ns)
		})
		for _, e := range front {
			stamp(n.id, e.name, e.ns)
		}
	}
	return b
}

// appendRoute writes why a request went to its version, if there are rules for that.
func appendRoute(b []byte, r *rollout.Route) []byte {
	if r == nil {
		return b
	}
	b = append(b, `,"version_reason":"`...)
	b = append(append(b, r.Reason.String()...), '"')
	if r.Label != "" {
		b = append(b, `,"version_label":`...)
		b = appendString(b, r.Label)
	}
	return b
}

// appendTensor writes a tensor: its elements as one text.
func appendTensor(b []byte, t *tensor.Tensor) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, t.Name)
	b = append(b, `,"data":"`...)
	b = appendElements(b, t.Datatype, t.Data)
	b = append(b, `","shape":"`...)
	for i, d := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	b = append(b, `","dtype":"`...)
	b = append(b, t.Datatype.String()...)
	return append(b, `"}`...)
}

func appendElements(b []byte, d tensor.Datatype, data []byte) []byte {
	if d == tensor.Bytes {
		for i, e := range tensor.Elements(data) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `\"`...)
			b = appendNested(b, e)
			b = append(b, `\"`...)
		}
		return b
	}
	size := d.Size()
	if size <= 0 {
		return b
	}
	for i := 0; i+size <= len(data); i += size {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, d, data[i:i+size])
	}
	return b
}

func appendNumber(b []byte, d tensor.Datatype, e []byte) []byte {
	le := binary.LittleEndian
	switch d {
	case tensor.Bool, tensor.Uint8:
		return strconv.AppendUint(b, uint64(e[0]), 10)
	case tensor.Uint16:
		return strconv.AppendUint(b, uint64(le.Uint16(e)), 10)
	case tensor.Uint32:
		return strconv.AppendUint(b, uint64(le.Uint32(e)), 10)
	case tensor.Uint64:
		return strconv.AppendUint(b, le.Uint64(e), 10)
	case tensor.Int8:
		return strconv.AppendInt(b, int64(int8(e[0])), 10)
	case tensor.Int16:
		return strconv.AppendInt(b, int64(int16(le.Uint16(e))), 10)
	case tensor.Int32:
		return strconv.AppendInt(b, int64(int32(le.Uint32(e))), 10)
	case tensor.Int64:
		return strconv.AppendInt(b, int64(le.Uint64(e)), 10)
	case tensor.FP16:
		return appendFloat(b, float64(tensor.FloatFP16(le.Uint16(e))))
	case tensor.BF16:
		return appendFloat(b, float64(tensor.FloatBF16(le.Uint16(e))))
	case tensor.FP32:
		return appendFloat(b, float64(math.Float32frombits(le.Uint32(e))))
	case tensor.FP64:
		return appendFloat(b, math.Float64frombits(le.Uint64(e)))
	default:
		return b
	}
}

// appendFloat writes six significant digits, as the peer's streams do.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	return strconv.AppendFloat(b, f, 'g', 6, 64)
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string; bytes that are no UTF-8 become U+FFFD.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	b = appendEscaped(b, s)
	return append(b, '"')
}

func appendEscaped[T string | []byte](b []byte, s T) []byte {
	text := []byte(s)
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRune(text[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
	}
	return b
}

// appendNested writes an element of a string that stands in quotes of its own
// inside the JSON string: escaped twice, so that it can be taken apart again.
func appendNested(b, element []byte) []byte {
	return appendEscaped(b, appendEscaped(nil, element))
}
