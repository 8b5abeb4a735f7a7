package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/nesoserve/neso/backend"
)

// appendParameters appends parameters as a JSON object, or nothing when there
// are none. Doubles that JSON lacks are written as Python reads them.
func appendParameters(dst []byte, params []backend.Parameter) []byte {
	if len(params) == 0 {
		return dst
	}
	dst = append(dst, '{')
	for i := range params {
		p := &params[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(dst, p.Name), ':')
		switch p.Kind {
		case backend.IntParameter:
			dst = strconv.AppendInt(dst, p.Int64(), 10)
		case backend.UintParameter:
			dst = strconv.AppendUint(dst, p.Uint64(), 10)
		case backend.BoolParameter:
			dst = strconv.AppendBool(dst, p.IsTrue())
		case backend.DoubleParameter:
			dst = appendDouble(dst, p.Float64())
		default:
			dst = appendJSONString(dst, p.Text())
		}
	}
	return append(dst, '}')
}

func appendDouble(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(dst, v, 'f', 1, 64) // "1.0", so that Python reads a float
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

const hexDigits = "0123456789abcdef"

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		b := s[i]
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		case b < utf8.RuneSelf:
			dst = append(dst, b)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r) // broken UTF-8 becomes U+FFFD
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}

var errNotAnObject = errors.New("parameters are not a JSON object")

// ParseParameters reads a JSON object of strings, booleans and numbers in the
// order of the text.
func ParseParameters(text []byte) ([]backend.Parameter, error) {
	if len(text) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotAnObject
	}
	var params []backend.Parameter
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		value, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch v := value.(type) {
		case string:
			params = append(params, backend.String(name, v))
		case bool:
			params = append(params, backend.Bool(name, v))
		case json.Number:
			p, err := numberParameter(name, v)
			if err != nil {
				return nil, err
			}
			params = append(params, p)
		default:
			return nil, fmt.Errorf("parameter %q is neither a string nor a number nor a boolean", name)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotAnObject
	}
	return params, nil
}

func numberParameter(name string, n json.Number) (backend.Parameter, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return backend.Int(name, i), nil
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return backend.Uint(name, u), nil
	}
	f, err := n.Float64()
	if err != nil {
		return backend.Parameter{}, fmt.Errorf("parameter %q: %w", name, err)
	}
	return backend.Double(name, f), nil
}
