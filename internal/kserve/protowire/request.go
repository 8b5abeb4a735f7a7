package protowire

import (
	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Limits of what one request may list. An element takes two bytes on the wire
// and far more in memory, so a message limit alone does not bound memory.
const (
	maxTensors  = 1 << 14
	maxDims     = 1 << 10
	maxContents = 1 << 10
)

// unset is the kind of a parameter whose value the client left out.
const unset backend.ParameterKind = 0xff

// Request is a ModelInferRequest as it came over the wire: its structure
// read, its tensor bytes still in the transport's buffers. It is reused from
// call to call: Parse, Decode, Reset.
type Request struct {
	ModelName, ModelVersion, ID string
	// Fault is a limit that the request exceeds; the request is then incomplete.
	Fault *backend.Error

	parameters []backend.Parameter
	inputs     []input
	outputs    []output
	raw        []span
	listed     int             // parameters of the request and of all its tensors
	message    mem.BufferSlice // a reference is held until Reset
}

type input struct {
	name, datatype string
	shape          tensor.Shape
	parameters     []backend.Parameter
	contents       contents
}

type output struct {
	name       string
	parameters []backend.Parameter
}

// Reset lets go of the message. The memory of q is kept for the next one, also
// its strings: a client tends to send the same names again.
func (q *Request) Reset() {
	q.message.Free()
	q.message = nil
	q.listed = 0
	q.Fault = nil
	q.parameters = trim(q.parameters)
	q.inputs = trim(q.inputs)
	q.outputs = trim(q.outputs)
	q.raw = trim(q.raw)
}

// trim empties a list for its next use, unless it has become so large that it
// should not be kept.
func trim[T any](s []T) []T {
	if cap(s) > 64 {
		return nil
	}
	return s[:0]
}

// grow makes room for one more element, which holds what it held before.
func grow[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// Size returns how many bytes the message has.
func (q *Request) Size() int { return q.message.Len() }

// Parse reads the structure of a ModelInferRequest and keeps a reference on
// data. It checks everything that generated code would check. An error means
// that the message is malformed; q must be Reset all the same.
func (q *Request) Parse(data mem.BufferSlice) error {
	data.Ref()
	q.message = data
	c := newCursor(data)
	var name, version, id string
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		known := num
		if wire != wireBytes {
			known = 0 // all fields are length-delimited
		}
		switch known {
		case 1:
			name, err = c.text(q.ModelName)
		case 2:
			version, err = c.text(q.ModelVersion)
		case 3:
			id, err = c.text(q.ID)
		case 4:
			q.parameters, err = c.mapEntry(q.parameters, q)
		case 5:
			err = q.parseInput(&c)
		case 6:
			err = q.parseOutput(&c)
		case 7:
			var n int
			if n, err = c.length(); err != nil {
				return err
			}
			s := c.take(n)
			if len(q.raw) >= maxTensors {
				q.fault("raw_input_contents", maxTensors)
				break
			}
			q.raw = append(q.raw, s)
		default:
			err = c.skip(num, wire)
		}
		if err != nil {
			return err
		}
	}
	q.ModelName, q.ModelVersion, q.ID = name, version, id
	q.parameters = lastOfEach(q.parameters)
	return nil
}

func (q *Request) fault(what string, limit int) {
	if q.Fault == nil {
		q.Fault = backend.Errorf(backend.InvalidArg, "request has too many %s, the limit is %d", what, limit)
	}
}

func (q *Request) parseInput(c *cursor) error {
	outer, err := c.enter()
	if err != nil {
		return err
	}
	var in *input
	if len(q.inputs) < maxTensors {
		q.inputs = grow(q.inputs)
		in = &q.inputs[len(q.inputs)-1]
	} else {
		q.fault("inputs", maxTensors)
		in = &input{} // read for its faults only
	}
	var name, datatype string
	in.shape = in.shape[:0]
	in.parameters = trim(in.parameters)
	in.contents.reset()
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		switch {
		case num == 1 && wire == wireBytes:
			name, err = c.text(in.name)
		case num == 2 && wire == wireBytes:
			datatype, err = c.text(in.datatype)
		case num == 3 && wire == wireVarint:
			var v uint64
			v, err = c.varint()
			q.dim(in, v)
		case num == 3 && wire == wireBytes:
			err = q.packedDims(c, in)
		case num == 4 && wire == wireBytes:
			in.parameters, err = c.mapEntry(in.parameters, q)
		case num == 5 && wire == wireBytes:
			err = in.contents.parse(c, q)
		default:
			err = c.skip(num, wire)
		}
		if err != nil {
			return err
		}
	}
	in.name, in.datatype = name, datatype
	in.parameters = lastOfEach(in.parameters)
	c.leave(outer)
	return nil
}

func (q *Request) dim(in *input, v uint64) {
	if len(in.shape) >= maxDims {
		q.fault("dimensions", maxDims)
		return
	}
	in.shape = append(in.shape, int64(v))
}

func (q *Request) packedDims(c *cursor, in *input) error {
	outer, err := c.enter()
	if err != nil {
		return err
	}
	for c.more() {
		v, err := c.varint()
		if err != nil {
			return err
		}
		q.dim(in, v)
	}
	c.leave(outer)
	return nil
}

func (q *Request) parseOutput(c *cursor) error {
	outer, err := c.enter()
	if err != nil {
		return err
	}
	var out *output
	if len(q.outputs) < maxTensors {
		q.outputs = grow(q.outputs)
		out = &q.outputs[len(q.outputs)-1]
	} else {
		q.fault("outputs", maxTensors)
		out = &output{} // read for its faults only
	}
	var name string
	out.parameters = trim(out.parameters)
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		switch {
		case num == 1 && wire == wireBytes:
			name, err = c.text(out.name)
		case num == 2 && wire == wireBytes:
			out.parameters, err = c.mapEntry(out.parameters, q)
		default:
			err = c.skip(num, wire)
		}
		if err != nil {
			return err
		}
	}
	out.name = name
	out.parameters = lastOfEach(out.parameters)
	c.leave(outer)
	return nil
}
