package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/nesoserve/neso/internal/modelconfig"
)

// vectors appends the reply of the route of embeddings.
func (a *Answer) vectors(b []byte) ([]byte, *Error) {
	left, from, index := len(a.r.texts), len(b), 0
	b = append(b, `{"object":"list","data":[`...)
	for i := range a.choices {
		c := &a.choices[i]
		if len(c.vectors) == 0 || c.rows == 0 || c.rows > left || len(c.vectors)%(4*c.rows) != 0 {
			return b[:from], &Error{Status: 500, Message: "the model has not answered with one vector for each text"}
		}
		for n := len(c.vectors) / c.rows; len(c.vectors) > 0; c.vectors = c.vectors[n:] {
			if index > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendInt(append(b, `{"object":"embedding","index":`...), int64(index), 10), `,"embedding":`...)
			b = append(a.vector(b, c.vectors[:n]), '}')
			index++
		}
		left -= c.rows
	}
	if left != 0 {
		return b[:from], &Error{Status: 500, Message: "the model has not answered with one vector for each text"}
	}
	b = appendJSON(append(b, `],"model":`...), a.r.Model)
	if u := a.Usage(); u.Known {
		b = appendJSON(append(b, `,"usage":`...), map[string]int64{"prompt_tokens": u.Prompt, "total_tokens": u.Prompt})
	}
	return append(b, '}'), nil
}

// vector appends one as the client wants it. What no JSON number can be is null.
func (a *Answer) vector(b, data []byte) []byte {
	if a.r.base64 {
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), data), '"')
	}
	b = append(b, '[')
	for i := 0; i < len(data); i += 4 {
		if i > 0 {
			b = append(b, ',')
		}
		if v := float64(math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))); math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, v, 'g', -1, 32)
		}
	}
	return append(b, ']')
}

// Listed is a model as the API lists it.
type Listed struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

// AppendModels appends the list of those models that are offered, in their order.
func AppendModels(b []byte, models []*modelconfig.Config, created int64) []byte {
	all := []Listed{}
	for _, cfg := range models {
		if m, bad := Map(cfg); bad == nil && m.Offered() {
			all = append(all, Listed{cfg.Name, "model", created, "neso"})
		}
	}
	return appendJSON(b, map[string]any{"object": "list", "data": all})
}

// AppendModel appends one model.
func AppendModel(b []byte, name string, created int64) []byte {
	return appendJSON(b, Listed{name, "model", created, "neso"})
}
