package kserve

import (
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/shm"
)

// Names of the parameters of requested outputs and of inputs.
const (
	ParamBinaryData     = "binary_data"
	ParamBinarySize     = "binary_data_size"
	ParamClassification = "classification"
	ParamRegion         = "shared_memory_region"
	ParamOffset         = "shared_memory_offset"
	ParamByteSize       = "shared_memory_byte_size"
)

// OutputRequest is one requested output and how it is to come back.
type OutputRequest struct {
	Name string
	// Binary asks for the binary tail instead of JSON; it has no meaning in gRPC.
	Binary bool
	// Classes, when above zero, asks for the top classes instead of the tensor.
	Classes uint64
	// Region places the output in a client's shared memory.
	Region RegionRef
	part   shm.Part // of Region, once it has been looked up
}

// RegionRef names a part of a client's registered shared memory.
type RegionRef struct {
	Name             string
	Offset, ByteSize uint64

	named, offset, size bool
	// Which of them had a value of another type. In gRPC Check says so: there the order
	// of the parameters means nothing.
	wrongName, wrongOffset, wrongSize bool
}

// IsZero reports whether no region was named.
func (g *RegionRef) IsZero() bool { return !g.named }

// SetParameter gives a parameter of an input or output its meaning
// when it is one of the three that name a region; it reports whether it was.
func (g *RegionRef) SetParameter(w Wire, p backend.Parameter) (bool, *backend.Error) {
	switch p.Name {
	case ParamRegion:
		g.named = true // also where the value is wrong: an input has then said where its data is
		if p.Kind != backend.StringParameter {
			g.wrongName = true
			return true, httpFault(w, p.Name, StringType)
		}
		g.Name = p.Text()
	case ParamOffset, ParamByteSize:
		n, ok := Unsigned(p)
		if w == GRPC {
			// gRPC carries them in a signed field; a negative one lies in no region.
			if ok = p.Kind == backend.IntParameter; ok && p.Int64() < 0 {
				n = math.MaxUint64
			}
		}
		if p.Name == ParamOffset {
			g.Offset, g.offset, g.wrongOffset = n, true, !ok
		} else {
			g.ByteSize, g.size, g.wrongSize = n, true, !ok
		}
		if !ok {
			return true, httpFault(w, p.Name, offsetType)
		}
	default:
		return false, nil
	}
	return true, nil
}

// httpFault is the error of a parameter of another type over HTTP, nil over gRPC, where
// Check finds it.
func httpFault(w Wire, name string, want WantedType) *backend.Error {
	if w == GRPC {
		return nil
	}
	return WrongType(w, name, want)
}

// Check reports what is wrong, missing or too much once all parameters are set.
func (g *RegionRef) Check(w Wire, tensor string) *backend.Error {
	if w != GRPC {
		return nil
	}
	alone := func(name string) *backend.Error {
		return Invalid("'" + name + "' can not be specified without 'shared_memory_region' parameter for tensor '" + tensor + "'")
	}
	switch {
	case g.wrongName:
		return wrongTensorType(tensor, ParamRegion, StringType)
	case g.offset && !g.named:
		return alone(ParamOffset)
	case g.wrongOffset:
		return wrongTensorType(tensor, ParamOffset, offsetType)
	case g.size && !g.named:
		return alone(ParamByteSize)
	case g.wrongSize:
		return wrongTensorType(tensor, ParamByteSize, offsetType)
	case g.named && !g.size:
		return Invalid("'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '" + tensor + "'")
	}
	return nil
}

// AddOutput adds a requested output and tells the core. Two requests for one
// output may contradict each other, hence they are a fault. The result is valid
// until the next call.
func (c *ResponseOptions) AddOutput(cfg *modelconfig.Config, r *backend.Request, name []byte) (*OutputRequest, *backend.Error) {
	for i := range cfg.Outputs {
		if cfg.Outputs[i].Name != string(name) {
			continue
		}
		known := cfg.Outputs[i].Name
		if r.Wants(known) {
			return nil, Invalid(RequestPrefix(r.ID) + "output '" + known + "' already exists in request")
		}
		r.Requested = append(r.Requested, known)
		c.Outputs = append(c.Outputs, OutputRequest{Name: known})
		return &c.Outputs[len(c.Outputs)-1], nil
	}
	return nil, Invalid("unexpected inference output '" + string(name) + "' for model '" + cfg.Name + "'")
}

// TextSize returns the bytes of those tensors of a response that become JSON.
func (c *ResponseOptions) TextSize(resp *backend.Response) (n int) {
	for i := range resp.Outputs {
		if o := c.Output(resp.Outputs[i].Name); !o.Binary && o.Region.IsZero() {
			n += len(resp.Outputs[i].Data)
		}
	}
	return n
}

// Output returns how the named output is to come back.
func (c *ResponseOptions) Output(name string) OutputRequest {
	for i := range c.Outputs {
		if c.Outputs[i].Name == name {
			return c.Outputs[i]
		}
	}
	return OutputRequest{Name: name, Binary: c.BinaryDefault}
}

func wrongTensorType(tensor, name string, want WantedType) *backend.Error {
	return Invalid("invalid value type for '" + name + "' parameter for tensor '" + tensor + "', " + protoTypes[want])
}

// SetParameter gives a parameter of a requested output its meaning. Unknown
// ones are ignored.
func (o *OutputRequest) SetParameter(w Wire, p backend.Parameter) *backend.Error {
	switch p.Name {
	case ParamBinaryData:
		if w == GRPC {
			return nil
		}
		if p.Kind != backend.BoolParameter {
			return WrongType(w, p.Name, BoolType)
		}
		o.Binary = p.IsTrue()
	case ParamClassification:
		n, ok := Unsigned(p)
		if w == GRPC {
			if p.Kind != backend.IntParameter {
				return Invalid("invalid value type for 'classification' parameter, expected int64_param")
			}
			if p.Int64() <= 0 {
				return Invalid("invalid value for 'classification' parameter, expected >= 0")
			}
		} else if !ok {
			return Invalid("Unable to set 'classification': " + jsonTypes[UnsignedType])
		}
		o.Classes = n
	default:
		_, err := o.Region.SetParameter(w, p)
		return err
	}
	return nil
}

// Check reports response that contradict each other, once all parameters of the
// output are set.
func (o *OutputRequest) Check(w Wire) *backend.Error {
	if err := o.Region.Check(w, o.Name); err != nil {
		return err
	}
	if o.Region.IsZero() {
		return nil
	}
	switch {
	case o.Classes > 0 && w == GRPC:
		return Invalid("output can't set both 'shared_memory_region' and 'classification'")
	case o.Classes > 0:
		return Invalid("Output can't set both 'shared_memory_region' and 'classification'")
	case o.Binary:
		return Invalid("Output can't set both 'shared_memory_region' and 'binary_data'")
	}
	return nil
}
