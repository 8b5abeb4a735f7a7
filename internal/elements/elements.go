// Package elements turns the elements of tensors from JSON into bytes and back.
package elements

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/nesoserve/neso/tensor"
)

// maxNesting is more than tensors have dimensions.
const maxNesting = 64

// Parse returns the scalars of a JSON array, however it nests, in the form of
// tensor.Tensor's Data. There must be want of them; a scalar alone is one.
func Parse(d tensor.Datatype, text []byte, want int64) ([]byte, error) {
	data, count, err := Read(d, text, want)
	if err == nil && count != want {
		return nil, fmt.Errorf("expected %d elements, got %d", want, count)
	}
	return data, err
}

// Read is Parse of any number of scalars up to most, and says how many there are.
func Read(d tensor.Datatype, text []byte, most int64) (data []byte, count int64, err error) {
	if !d.Valid() {
		return nil, 0, fmt.Errorf("unknown datatype")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, 0, fmt.Errorf("not JSON: %w", err)
		}
		switch token {
		case json.Delim('['):
			if depth++; depth > maxNesting {
				return nil, 0, fmt.Errorf("lists nest deeper than %d", maxNesting)
			}
		case json.Delim(']'):
			depth--
		default:
			if count++; count > most {
				return nil, 0, fmt.Errorf("more than %d elements", most)
			}
			if data, err = appendScalar(data, d, token); err != nil {
				return nil, 0, fmt.Errorf("element %d: %w", count-1, err)
			}
		}
		if depth == 0 {
			break
		}
	}
	if decoder.More() {
		return nil, 0, fmt.Errorf("more than one value")
	}
	return data, count, nil
}

func appendScalar(b []byte, d tensor.Datatype, token json.Token) ([]byte, error) {
	switch value := token.(type) {
	case string:
		if d == tensor.Bytes {
			return tensor.AppendElement(b, value), nil
		}
	case bool:
		if d == tensor.Bool {
			return append(b, flag(value)), nil
		}
	case json.Number:
		if d == tensor.Bool && (value == "0" || value == "1") {
			return append(b, value[0]-'0'), nil
		}
		if d != tensor.Bytes && d != tensor.Bool {
			return appendNumber(b, d, string(value))
		}
	}
	return nil, fmt.Errorf("expected %s, got %v", d, token)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendNumber(b []byte, d tensor.Datatype, text string) ([]byte, error) {
	bits := 8 * d.Size()
	var word uint64
	var err error
	switch d {
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		word, err = strconv.ParseUint(text, 10, bits)
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		word = uint64(n)
	case tensor.FP64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		word = math.Float64bits(f)
	default:
		var f float64
		f, err = strconv.ParseFloat(text, 32)
		word = floatBits(d, float32(f))
	}
	if err != nil {
		return nil, fmt.Errorf("expected %s, got %s", d, text)
	}
	for range bits / 8 {
		b = append(b, byte(word))
		word >>= 8
	}
	return b, nil
}

func floatBits(d tensor.Datatype, f float32) uint64 {
	switch d {
	case tensor.FP16:
		return uint64(tensor.NewFloat16(f))
	case tensor.BF16:
		return uint64(tensor.NewBFloat16(f))
	default:
	}
	return uint64(math.Float32bits(f))
}

// Append appends elements as a flat JSON array. What is left of data behind its
// last whole element is an error, as are numbers that JSON has not.
func Append(b []byte, d tensor.Datatype, data []byte) ([]byte, error) {
	if d == tensor.Bytes {
		if _, err := tensor.CountBytes(data); err != nil {
			return nil, err
		}
		b = append(b, '[')
		for i, element := range tensor.Elements(data) {
			if i > 0 {
				b = append(b, ',')
			}
			if !utf8.Valid(element) {
				return nil, fmt.Errorf("element %d: JSON has only texts in UTF-8", i)
			}
			text, err := json.Marshal(string(element))
			if err != nil {
				return nil, err
			}
			b = append(b, text...)
		}
		return append(b, ']'), nil
	}
	size := d.Size()
	if size == 0 || len(data)%size != 0 {
		return nil, fmt.Errorf("%d bytes are not whole elements of %s", len(data), d)
	}
	b = append(b, '[')
	for i := 0; i < len(data); i += size {
		if i > 0 {
			b = append(b, ',')
		}
		word := uint64(0)
		for k := size - 1; k >= 0; k-- {
			word = word<<8 | uint64(data[i+k])
		}
		var err error
		if b, err = appendWord(b, d, word); err != nil {
			return nil, fmt.Errorf("element %d: %w", i/size, err)
		}
	}
	return append(b, ']'), nil
}

func appendWord(b []byte, d tensor.Datatype, word uint64) ([]byte, error) {
	switch d {
	case tensor.Bool:
		return strconv.AppendBool(b, word != 0), nil
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return strconv.AppendUint(b, word, 10), nil
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		unused := 64 - 8*d.Size()
		return strconv.AppendInt(b, int64(word<<unused)>>unused, 10), nil
	default:
	}
	f, bits := math.Float64frombits(word), 64
	switch d {
	case tensor.FP32:
		f, bits = float64(math.Float32frombits(uint32(word))), 32
	case tensor.FP16:
		f, bits = float64(tensor.FloatFP16(uint16(word))), 32
	case tensor.BF16:
		f, bits = float64(tensor.FloatBF16(uint16(word))), 32
	default:
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("JSON has no %v", f)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits), nil
}
