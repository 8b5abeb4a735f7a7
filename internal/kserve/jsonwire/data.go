package jsonwire

import (
	"encoding/binary"
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/tensor"
)

// scanner adds what tensors need to the scanner of plain JSON.
type scanner struct{ jsonscan.Scanner }

// errShape says that `data` has not as many elements as the shape.
var errShape = kserve.Invalid("Unable to parse 'data': Shape does not match true shape of 'data' field")

// elements walks over the scalars of nested arrays; how they nest is free. A
// scalar without an array is one element. On true the scanner stands on a
// scalar; on false the outermost array has ended, or there is a fault.
type elements struct {
	depth int
	fresh bool // just behind a '['
	bare  bool // behind a scalar without an array
}

func (e *elements) next(s *scanner) bool {
	if e.bare {
		return false
	}
	for {
		if e.depth > 0 && !s.NextElement(e.fresh) {
			if s.Bad != jsonscan.FaultNone {
				return false
			}
			e.fresh = false
			if e.depth--; e.depth == 0 {
				return false
			}
			continue
		}
		e.fresh = false
		if s.I >= len(s.B) || s.B[s.I] != '[' {
			e.bare = e.depth == 0
			return true
		}
		if e.depth++; e.depth > jsonscan.MaxNesting {
			return s.Fail(jsonscan.FaultNesting, s.I)
		}
		s.I++
		e.fresh = true
	}
}

// typeError is the error for a scalar of the wrong kind, once its own syntax
// has been found right.
func (s *scanner) typeError(text string) *backend.Error {
	if !s.Skip() {
		return s.Err("request")
	}
	return kserve.Invalid(text)
}

const (
	notDouble   = "Unable to parse 'data': attempt to access JSON non-number as double"
	notSigned   = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
	notUnsigned = "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"
	notBool     = "Unable to parse 'data': attempt to access JSON non-boolean as boolean"
	notString   = "Unable to parse JSON bytes array: attempt to access JSON non-string as string"
)

// data parses the array on which the scanner stands into dst, n elements of a
// fixed-size datatype.
func (s *scanner) data(d tensor.Datatype, dst []byte, n int) *backend.Error {
	switch d {
	case tensor.FP32, tensor.FP64:
		return s.floats(d, dst, n)
	case tensor.Bool:
		return s.bools(dst, n)
	default:
		return s.integers(d, dst, n)
	}
}

// isNumber reports whether a number may begin with c.
func isNumber(c byte) bool { return c-'0' <= 9 || c == '-' || c == 'N' || c == 'I' }

func (s *scanner) floats(d tensor.Datatype, dst []byte, n int) *backend.Error {
	var e elements
	var num jsonscan.Decimal
	k := 0
	for e.next(s) {
		for {
			if s.I < len(s.B) && !isNumber(s.B[s.I]) {
				return s.typeError(notDouble)
			}
			if !s.Decimal(&num) {
				return s.Err("request")
			}
			if k == n {
				return errShape
			}
			if d == tensor.FP32 {
				f, ok := s.Float32(&num)
				if !ok {
					return s.Err("request")
				}
				binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(f))
			} else {
				f, ok := s.Float64(&num)
				if !ok {
					return s.Err("request")
				}
				binary.LittleEndian.PutUint64(dst[8*k:], math.Float64bits(f))
			}
			k++
			if !s.another() {
				break
			}
		}
	}
	return s.counted(k, n)
}

// another is the short way from one number to the next in the same array: it
// passes the comma when a number follows at once or after one blank. Otherwise
// it passes nothing.
func (s *scanner) another() bool {
	b, i := s.B, s.I
	if i+2 >= len(b) || b[i] != ',' {
		return false
	}
	if b[i+1] == ' ' {
		i++
	}
	if c := b[i+1]; c-'0' <= 9 || c == '-' {
		s.I = i + 1
		return true
	}
	return false
}

func (s *scanner) counted(k, n int) *backend.Error {
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	if k != n {
		return errShape
	}
	return nil
}

// integers stores values as a C cast would: what does not fit is cut off.
func (s *scanner) integers(d tensor.Datatype, dst []byte, n int) *backend.Error {
	var e elements
	var num jsonscan.Decimal
	signed := d >= tensor.Int8 && d <= tensor.Int64
	size, wrong := d.Size(), notUnsigned
	if signed {
		wrong = notSigned
	}
	k := 0
	for e.next(s) {
		for {
			if s.I < len(s.B) && !isNumber(s.B[s.I]) {
				return s.typeError(wrong)
			}
			at := s.I
			if !s.Decimal(&num) {
				return s.Err("request")
			}
			if k == n {
				return errShape
			}
			var v uint64
			var ok bool
			if signed {
				var i int64
				i, ok = num.Signed()
				v = uint64(i)
			} else {
				v, ok = num.Unsigned(s.B)
			}
			if !ok {
				s.I = at
				return s.typeError(wrong)
			}
			switch size {
			case 1:
				dst[k] = byte(v)
			case 2:
				binary.LittleEndian.PutUint16(dst[2*k:], uint16(v))
			case 4:
				binary.LittleEndian.PutUint32(dst[4*k:], uint32(v))
			default:
				binary.LittleEndian.PutUint64(dst[8*k:], v)
			}
			k++
			if !s.another() {
				break
			}
		}
	}
	return s.counted(k, n)
}

func (s *scanner) bools(dst []byte, n int) *backend.Error {
	var e elements
	k := 0
	for e.next(s) {
		var v byte
		switch c := s.Peek(); c {
		case 't', 'f':
			word := "false"
			if c == 't' {
				word, v = "true", 1
			}
			if !s.Word(word) {
				return s.Err("request")
			}
		default:
			return s.typeError(notBool)
		}
		if k == n {
			return errShape
		}
		dst[k] = v
		k++
	}
	return s.counted(k, n)
}

// strings appends the elements of the array on which the scanner stands to
// dst, in BYTES form. How many there must be is checked by the core.
func (s *scanner) strings(dst []byte) ([]byte, *backend.Error) {
	var e elements
	for e.next(s) {
		if s.I < len(s.B) && s.B[s.I] != '"' {
			return dst, s.typeError(notString)
		}
		if s.I >= len(s.B) {
			s.Fail(jsonscan.FaultValue, s.I)
			break
		}
		at := len(dst)
		var ok bool
		if dst, ok = s.AppendString(append(dst, 0, 0, 0, 0)); !ok {
			break
		}
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	if s.Bad != jsonscan.FaultNone {
		return dst, s.Err("request")
	}
	return dst, nil
}
