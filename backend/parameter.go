package backend

import "math"

// ParameterKind is the type of a parameter's value.
type ParameterKind uint8

// The kinds a parameter can have on the wire.
const (
	StringParameter ParameterKind = iota
	IntParameter
	UintParameter
	BoolParameter
	DoubleParameter
)

// Parameter is a named value that travels with a request or a response.
type Parameter struct {
	Name string
	Kind ParameterKind
	text string
	bits uint64
}

// String returns a string parameter.
func String(name, v string) Parameter { return Parameter{Name: name, text: v} }

// Int returns an integer parameter.
func Int(name string, v int64) Parameter {
	return Parameter{Name: name, Kind: IntParameter, bits: uint64(v)}
}

// Uint returns an unsigned parameter, for values above the int64 range.
func Uint(name string, v uint64) Parameter {
	return Parameter{Name: name, Kind: UintParameter, bits: v}
}

// Bool returns a boolean parameter.
func Bool(name string, v bool) Parameter {
	p := Parameter{Name: name, Kind: BoolParameter}
	if v {
		p.bits = 1
	}
	return p
}

// Double returns a floating-point parameter.
func Double(name string, v float64) Parameter {
	return Parameter{Name: name, Kind: DoubleParameter, bits: math.Float64bits(v)}
}

// Text returns the value of a string parameter.
func (p Parameter) Text() string { return p.text }

// Int64 returns the value of an integer parameter.
func (p Parameter) Int64() int64 { return int64(p.bits) }

// Uint64 returns the value of an unsigned parameter.
func (p Parameter) Uint64() uint64 { return p.bits }

// IsTrue returns the value of a boolean parameter.
func (p Parameter) IsTrue() bool { return p.bits != 0 }

// Float64 returns the value of a floating-point parameter.
func (p Parameter) Float64() float64 { return math.Float64frombits(p.bits) }

// Value returns the value as string, int64, uint64, bool or float64.
func (p Parameter) Value() any {
	switch p.Kind {
	case IntParameter:
		return p.Int64()
	case UintParameter:
		return p.Uint64()
	case BoolParameter:
		return p.IsTrue()
	case DoubleParameter:
		return p.Float64()
	default:
		return p.text
	}
}
