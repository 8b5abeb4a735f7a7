package kserve

import (
	"math"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// Wire is the form in which a request came. What a parameter means does not
// depend on it; the texts of errors, and a few accepted types, do.
type Wire uint8

// The two wire forms.
const (
	HTTP Wire = iota
	GRPC
)

// Names of the request parameters that have a meaning. All others are custom.
const (
	ParamSequenceID    = "sequence_id"
	ParamSequenceStart = "sequence_start"
	ParamSequenceEnd   = "sequence_end"
	ParamPriority      = "priority"
	ParamTimeout       = "timeout"
	ParamBinaryOutput  = "binary_data_output"
	paramEmptyFinal    = "triton_enable_empty_final_response"
	reservedPrefix     = "triton_"
)

// MaxParameters is how many parameters one request may have: each takes more
// memory than text.
const MaxParameters = 1 << 16

// maxCorrelationText is the longest correlation ID given as text.
const maxCorrelationText = 128

// ResponseOptions are what a request asks of the front end, beside what goes into the core
// request: how its answer is to be written. They are reused from request to request.
type ResponseOptions struct {
	// Outputs are the requested outputs with their response. Empty means every
	// output, in the default representation.
	Outputs []OutputRequest
	// BinaryDefault is the representation of outputs when Outputs is empty.
	BinaryDefault bool
	// EmptyFinal asks for a final response without content on streams.
	EmptyFinal bool

	inputs []regionInput
}

// Reset makes c ready for the next request and keeps its memory. It lets go of
// the client's shared memory.
func (c *ResponseOptions) Reset() {
	c.ReleaseRegions()
	clear(c.Outputs)
	c.Outputs, c.BinaryDefault, c.EmptyFinal = c.Outputs[:0], false, false
}

// SetParameter gives a request parameter its meaning: it ends up in r or in c.
// An error is a fault of the request.
func (c *ResponseOptions) SetParameter(w Wire, r *backend.Request, p backend.Parameter) *backend.Error {
	switch p.Name {
	case ParamSequenceID:
		return setSequenceID(w, r, p)
	case ParamSequenceStart:
		return setFlag(w, r, p, backend.SequenceStart)
	case ParamSequenceEnd:
		return setFlag(w, r, p, backend.SequenceEnd)
	case ParamPriority:
		switch {
		case p.Kind == backend.UintParameter, p.Kind == backend.IntParameter && p.Int64() >= 0:
			r.Priority = p.Uint64()
		case w == HTTP:
			return WrongType(w, p.Name, UnsignedType)
		case p.Kind == backend.IntParameter:
			return Invalid("invalid value for 'priority', expected value >= 0.")
		default:
			return WrongType(w, p.Name, UnsignedType)
		}
	case ParamTimeout:
		switch {
		case w == HTTP && p.Kind == backend.UintParameter, p.Kind == backend.IntParameter && (w == GRPC || p.Int64() >= 0):
			// gRPC has no unsigned timeout: a negative one is no timeout.
			if p.Kind == backend.UintParameter || p.Int64() > 0 {
				r.Timeout = p.Uint64()
			}
		default:
			return WrongType(w, p.Name, microsecondsType)
		}
	case ParamBinaryOutput:
		if w == GRPC {
			return c.custom(w, r, p)
		}
		if p.Kind != backend.BoolParameter {
			return WrongType(w, p.Name, BoolType)
		}
		c.BinaryDefault = p.IsTrue()
	default:
		return c.custom(w, r, p)
	}
	return nil
}

// custom keeps a parameter that only the model understands.
func (c *ResponseOptions) custom(w Wire, r *backend.Request, p backend.Parameter) *backend.Error {
	if strings.HasPrefix(p.Name, reservedPrefix) {
		if w == HTTP {
			return Invalid("parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")
		}
		if p.Name != paramEmptyFinal {
			return Invalid("parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting " +
				"with 'triton_' are allowed: triton_enable_empty_final_response")
		}
		if p.Kind != backend.BoolParameter {
			return WrongType(w, p.Name, BoolType)
		}
		c.EmptyFinal = p.IsTrue()
		return nil
	}
	if p.Kind == backend.UintParameter {
		if w == GRPC {
			return InvalidParameter(w, p.Name)
		}
		// JSON has no unsigned parameters: what exceeds an int64 is a number.
		p = backend.Double(p.Name, float64(p.Uint64()))
	}
	r.Parameters = append(r.Parameters, p)
	return nil
}

func setSequenceID(w Wire, r *backend.Request, p backend.Parameter) *backend.Error {
	switch p.Kind {
	case backend.UintParameter:
		if w == HTTP {
			r.Correlation = backend.CorrelationID{Number: p.Uint64()}
			return nil
		}
	case backend.IntParameter:
		// gRPC carries the unsigned ID in a signed field.
		if w == GRPC || p.Int64() >= 0 {
			r.Correlation = backend.CorrelationID{Number: p.Uint64()}
			return nil
		}
	case backend.StringParameter:
		if len(p.Text()) > maxCorrelationText {
			return &backend.Error{Code: backend.Unsupported, Message: "string correlation ID cannot be longer than 128 characters"}
		}
		r.Correlation = backend.CorrelationID{Text: p.Text()}
		return nil
	default:
	}
	return WrongType(w, p.Name, correlationType)
}

func setFlag(w Wire, r *backend.Request, p backend.Parameter, f backend.Flags) *backend.Error {
	if p.Kind != backend.BoolParameter {
		return WrongType(w, p.Name, BoolType)
	}
	r.Flags &^= f
	if p.IsTrue() {
		r.Flags |= f
	}
	return nil
}

// InvalidParameter is the error for a custom parameter whose value has no
// meaning: a structured or null JSON value, or an unset or unsigned protobuf one.
func InvalidParameter(w Wire, name string) *backend.Error {
	if w == GRPC {
		return Invalid("invalid value type for '" + name + "' parameter, expected int64_param, bool_param, or string_param.")
	}
	return Invalid("parameter '" + name + "' has invalid type. It should be either 'int', 'bool', or 'string'.")
}

// WantedType is what a known parameter must be.
type WantedType uint8

// The types that parameters have.
const (
	BoolType WantedType = iota
	UnsignedType
	microsecondsType
	correlationType
	StringType
	offsetType
)

var (
	jsonTypes = [...]string{
		BoolType:         "attempt to access JSON non-boolean as boolean",
		UnsignedType:     "attempt to access JSON non-unsigned-integer as unsigned-integer",
		microsecondsType: "attempt to access JSON non-unsigned-integer as unsigned-integer",
		correlationType:  "attempt to access JSON non-string as string",
		StringType:       "attempt to access JSON non-string as string",
		offsetType:       "attempt to access JSON non-unsigned-integer as unsigned-integer",
	}
	protoTypes = [...]string{
		BoolType:         "expected bool_param.",
		UnsignedType:     "expected int64_param or uint64_param.",
		microsecondsType: "expected int64_param.",
		correlationType:  "expected int64_param or string_param.",
		StringType:       "expected string_param.",
		offsetType:       "expected int64_param.",
	}
)

// WrongParameter is the error for a known request parameter whose value is
// structured, null or unset: no kind of backend.Parameter. For other names it
// is InvalidParameter, and for reserved ones the error about those.
func WrongParameter(w Wire, name string) *backend.Error {
	switch name {
	case ParamSequenceID:
		return WrongType(w, name, correlationType)
	case ParamSequenceStart, ParamSequenceEnd:
		return WrongType(w, name, BoolType)
	case ParamPriority:
		return WrongType(w, name, UnsignedType)
	case ParamTimeout:
		return WrongType(w, name, microsecondsType)
	case ParamBinaryOutput:
		if w == HTTP {
			return WrongType(w, name, BoolType)
		}
	case paramEmptyFinal:
		if w == GRPC {
			return WrongType(w, name, BoolType)
		}
	}
	if strings.HasPrefix(name, reservedPrefix) {
		var c ResponseOptions
		return c.custom(w, nil, backend.Bool(name, true))
	}
	return InvalidParameter(w, name)
}

// WrongType is the error for a known parameter of another type than it must be.
func WrongType(w Wire, name string, want WantedType) *backend.Error {
	if w == GRPC {
		return Invalid("invalid value type for '" + name + "' parameter, " + protoTypes[want])
	}
	return Invalid("Unable to parse '" + name + "': " + jsonTypes[want])
}

// Unsigned returns the value of a parameter that must not be negative.
func Unsigned(p backend.Parameter) (uint64, bool) {
	switch p.Kind {
	case backend.UintParameter:
		return p.Uint64(), true
	case backend.IntParameter:
		return p.Uint64(), p.Uint64() <= math.MaxInt64
	default:
		return 0, false
	}
}

// LoadConfig is the configuration that a load is to have when its parameter `config` says
// text. An empty text is no configuration, while the engine takes "" for a load without
// the parameter; hence it becomes a blank, which does not parse either.
func LoadConfig(text string) string {
	if text == "" {
		return " "
	}
	return text
}
