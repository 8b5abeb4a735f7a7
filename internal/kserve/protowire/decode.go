package protowire

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Version returns the version number of the request, -1 for the latest.
func (q *Request) Version() (int64, *backend.Error) { return ParseVersion(q.ModelVersion) }

// ParseVersion returns the number in a version string as clients of gRPC send
// it, -1 for the empty one: what C's strtol reads, blanks and a sign in front of
// digits and whatever behind them.
func ParseVersion(text string) (int64, *backend.Error) {
	if text == "" {
		return -1, nil
	}
	number := strings.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	if number != "" && (number[0] == '+' || number[0] == '-') {
		end++
	}
	for end < len(number) && number[end] >= '0' && number[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(number[:end], 10, 64)
	if err != nil {
		return 0, kserve.Invalid("failed to get model version from specified version string '" + text +
			"' (details: stol), version should be an integral value > 0")
	}
	if n < 0 {
		return 0, kserve.Invalid("invalid model version specified '" + text + "' , version should be an integral value > 0")
	}
	return n, nil
}

// InputBytes returns how many bytes the request's tensors will take up: what
// admission has to count.
func (q *Request) InputBytes() int64 {
	n := int64(0)
	for _, s := range q.raw {
		n += int64(s.size)
	}
	for i := range q.inputs {
		t := &q.inputs[i].contents
		d := tensor.LookupDatatype(q.inputs[i].datatype)
		for f := boolContents; f < contentsFields; f++ {
			n += int64(t.size(f, d))
		}
	}
	return n
}

// usualText is up to what size, in bytes, the texts of a request are not counted.
const usualText = 4 << 10

// TextBytes returns what a request holds of texts until its end, its id and its
// parameters, where that is more than usual.
func (q *Request) TextBytes() int64 {
	n := textOf(q.parameters) + int64(len(q.ID))
	for i := range q.inputs {
		n += textOf(q.inputs[i].parameters)
	}
	for i := range q.outputs {
		n += int64(len(q.outputs[i].name)) + textOf(q.outputs[i].parameters)
	}
	if n <= usualText {
		return 0
	}
	return n
}

func textOf(parameters []backend.Parameter) (n int64) {
	for i := range parameters {
		n += int64(len(parameters[i].Name)) + int64(len(parameters[i].Text()))
	}
	return n
}

// Decode fills r and c from a parsed message. Tensor bytes go straight from
// the transport's buffers into memory of the model's allocator; inputs in shared
// memory have no data before Call.ReadRegions. On an error r
// holds the inputs allocated so far and is the caller's to release.
func Decode(q *Request, r *backend.Request, c *kserve.ResponseOptions, m kserve.Target) *backend.Error {
	if q.Fault != nil {
		return q.Fault
	}
	r.ID = q.ID
	for _, p := range q.parameters {
		if p.Kind == unset {
			return kserve.WrongParameter(kserve.GRPC, p.Name)
		}
		if err := c.SetParameter(kserve.GRPC, r, p); err != nil {
			return err
		}
	}
	memory := new(kserve.RequestMemory)
	if len(q.inputs) <= len(memory.Inputs) {
		r.Inputs = memory.Inputs[:0]
	} else {
		r.Inputs = make([]tensor.Tensor, 0, len(q.inputs))
	}
	r.Requested = memory.Requested[:0]
	if err := q.decodeOutputs(r, c, m.Config); err != nil {
		return err
	}
	if err := q.decodeInputs(r, c, memory.Dims[:0], m); err != nil {
		return err
	}
	return c.OpenOutputs(m)
}

func (q *Request) decodeOutputs(r *backend.Request, c *kserve.ResponseOptions, cfg *modelconfig.Config) *backend.Error {
	for i := range q.outputs {
		o, err := c.AddOutput(cfg, r, []byte(q.outputs[i].name))
		if err != nil {
			return err
		}
		for _, p := range q.outputs[i].parameters {
			if err := o.SetParameter(kserve.GRPC, p); err != nil {
				return err
			}
		}
		if err := o.Check(kserve.GRPC); err != nil {
			return err
		}
	}
	return nil
}

func (q *Request) decodeInputs(r *backend.Request, c *kserve.ResponseOptions, dims []int64, m kserve.Target) *backend.Error {
	raw, a := q.raw, m.Allocator
	for i := range q.inputs {
		in := &q.inputs[i]
		var region kserve.RegionRef
		for _, p := range in.parameters {
			if _, err := region.SetParameter(kserve.GRPC, p); err != nil {
				return err
			}
		}
		if err := region.Check(kserve.GRPC, in.name); err != nil {
			return err
		}
		if !region.IsZero() {
			if in.contents.present {
				return kserve.Invalid("unexpected 'content' provided when using shared memory for input tensor '" + in.name +
					"' for model '" + q.ModelName + "'")
			}
			if err := c.OpenInput(m, len(r.Inputs), &region); err != nil {
				return err
			}
		}
		t := tensor.Tensor{Name: in.name, Datatype: tensor.LookupDatatype(in.datatype)}
		from := len(dims)
		dims = append(dims, in.shape...)
		t.Shape = tensor.Shape(dims[from:len(dims):len(dims)])
		var err *backend.Error
		switch {
		case !region.IsZero():
		case in.contents.present && len(q.raw) > 0:
			return kserve.Invalid("contents field must not be specified when using raw_input_contents for '" + in.name +
				"' for model '" + q.ModelName + "'")
		case in.contents.present:
			err = q.decodeContents(&t, &in.contents, a)
		case len(raw) == 0:
			return kserve.Invalid("unable to find data for input tensor '" + in.name + "' for model '" + q.ModelName + "' in request.")
		default:
			err = gather(&t, q.message, raw[0], a)
			raw = raw[1:]
		}
		if err != nil {
			return err
		}
		r.Inputs = append(r.Inputs, t)
	}
	return nil
}

// gather copies a run of bytes of the message into memory for t, unless it has
// been received there (Place).
func gather(t *tensor.Tensor, message mem.BufferSlice, s span, a tensor.Allocator) *backend.Error {
	if adopt(t, message, s, a) {
		return nil
	}
	b, err := a.Allocate(s.size)
	if err != nil {
		return backend.AsError(err)
	}
	c := cursorAt(message, s)
	c.read(b.Bytes())
	t.Buffer, t.Data = b, b.Bytes()
	return nil
}

// decodeContents converts typed contents into memory for t.
func (q *Request) decodeContents(t *tensor.Tensor, typed *contents, a tensor.Allocator) *backend.Error {
	found := contentsField(0)
	for f := boolContents; f < contentsFields; f++ {
		switch {
		case typed.count[f] == 0:
		case found != 0 && typed.size(found, t.Datatype) > 0:
			return kserve.Invalid("unexpected explicit tensor data for input tensor '" + t.Name + "' for model '" + q.ModelName +
				"', binary data was already supplied.")
		case f.datatype(t.Datatype) != t.Datatype:
			return kserve.Invalid("unexpected explicit tensor data for input tensor '" + t.Name + "' for model '" + q.ModelName + "' of type '" +
				f.datatype(t.Datatype).String() + "', expected datatype '" + t.Datatype.String() + "'")
		default:
			found = f
		}
	}
	size := 0
	if found != 0 {
		size = typed.size(found, t.Datatype)
	}
	b, err := a.Allocate(size)
	if err != nil {
		return backend.AsError(err)
	}
	if found != 0 {
		typed.write(b.Bytes(), q.message, found, t.Datatype)
	}
	t.Buffer, t.Data = b, b.Bytes()
	return nil
}
