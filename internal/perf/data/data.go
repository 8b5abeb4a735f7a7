// Package data owns what the load generator sends: tensors that are random, zero,
// read from a directory or from JSON with streams of requests and the outputs that
// are expected of them. Open data.go first.
package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nesoserve/neso/tensor"
)

// Input describes an input of the model; Shape is without the batch dimension.
type Input struct {
	Name     string
	Datatype tensor.Datatype
	Shape    tensor.Shape
	Optional bool
}

// Tensor is one tensor of a request: its elements as the protocol has them, and a
// shape with the batch dimension where the model batches.
type Tensor struct {
	Name     string
	Datatype tensor.Datatype
	Shape    tensor.Shape
	Bytes    []byte
	// Region names where in shared memory the bytes lie, "" if they travel.
	Region string
	Offset int64
}

// Step is one request: what is sent, and what must come back if anything must.
type Step struct {
	Inputs   []Tensor
	Expected []Tensor
	// At is when the request is due, of data with a schedule.
	At time.Duration
	// Body is the whole request instead, of a protocol that is not KServe's.
	Body []byte
}

// Set is all the data of a run. A sequence plays one stream; requests that belong
// to none take the steps of all in turn.
type Set struct {
	Streams [][]Step
	// Given reports that a user wrote it: lengths of sequences follow it.
	Given bool
}

// Options say where data comes from.
type Options struct {
	Inputs       []Input
	Outputs      []Input
	Paths        []string // directories and JSON files; empty makes random data
	Zero         bool
	Shapes       map[string][]int64
	StringLength int
	StringData   *string
	Batch        int
	Batches      bool // the model has a batch dimension
	Sequence     bool
	Scheduled    bool // each step says when it is due
}

// New makes the data, with all shapes complete.
func New(o Options, random *rand.Rand) (*Set, error) {
	if err := shapes(&o); err != nil {
		return nil, err
	}
	set := &Set{}
	for _, path := range o.Paths {
		streams, err := read(path, &o)
		if err != nil {
			return nil, fmt.Errorf("failed to read the input data %s: %w", path, err)
		}
		set.Streams, set.Given = append(set.Streams, streams...), true
	}
	if !set.Given {
		step, err := generate(&o, random)
		if err != nil {
			return nil, err
		}
		set.Streams = [][]Step{{step}}
	}
	if !o.Sequence { // all in turn
		set.Streams = [][]Step{slices.Concat(set.Streams...)}
	}
	for i, stream := range set.Streams {
		if len(stream) == 0 {
			return nil, fmt.Errorf("the input data has a stream without a request")
		}
		batched, err := batch(stream, &o)
		if err != nil {
			return nil, err
		}
		set.Streams[i] = batched
	}
	return set, nil
}

// shapes fills the sizes that the model leaves open from the options.
func shapes(o *Options) error {
	for name := range o.Shapes {
		if !slices.ContainsFunc(o.Inputs, func(in Input) bool { return in.Name == name }) {
			return fmt.Errorf("the model has no input '%s' to give a shape to", name)
		}
	}
	o.Inputs = slices.Clone(o.Inputs)
	for i := range o.Inputs {
		in := &o.Inputs[i]
		given, ok := o.Shapes[in.Name]
		if !ok {
			continue
		}
		if !tensor.Shape(given).Matches(in.Shape) {
			return fmt.Errorf("input '%s' has the shape %v, which %v does not match", in.Name, in.Shape, tensor.Shape(given))
		}
		in.Shape = given
	}
	return nil
}

// ErrOpen says of an input that nothing tells its size.
type openError struct{ name string }

func (e *openError) Error() string {
	return "input " + e.name + " contains dynamic shape, provide shapes to send along with the request, such as --shape " + e.name + ":16"
}

// generate makes one request of random or zero elements. Inputs that are optional
// are left out unless a shape names them.
func generate(o *Options, random *rand.Rand) (Step, error) {
	var s Step
	for _, in := range o.Inputs {
		_, named := o.Shapes[in.Name]
		if in.Optional && !named {
			continue
		}
		if in.Shape.HasWildcard() {
			return s, &openError{in.Name}
		}
		n, err := in.Shape.Elements()
		if err != nil {
			return s, err
		}
		if each := elementSize(o, in.Datatype); n > mostBytes/each {
			return s, fmt.Errorf("input '%s' has the shape %v: more than %d bytes are not generated", in.Name, in.Shape, int64(mostBytes))
		}
		t := Tensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape}
		switch {
		case in.Datatype == tensor.Bytes:
			for range n {
				t.Bytes = tensor.AppendElement(t.Bytes, text(o, random))
			}
		case o.Zero:
			t.Bytes = make([]byte, int(n)*in.Datatype.Size())
		default:
			t.Bytes = elements(in.Datatype, int(n), random)
		}
		s.Inputs = append(s.Inputs, t)
	}
	return s, nil
}

// mostBytes bounds a tensor that is generated: what a server asks for is not always
// what it means.
const mostBytes = 2 << 30

// elementSize is how many bytes an element is that is generated.
func elementSize(o *Options, d tensor.Datatype) int64 {
	if d != tensor.Bytes {
		return int64(d.Size())
	}
	const length = 4
	if o.StringData != nil {
		return int64(length + len(*o.StringData))
	}
	return int64(length + o.StringLength)
}

func text(o *Options, random *rand.Rand) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 "
	switch {
	case o.StringData != nil:
		return *o.StringData
	case o.Zero:
		return ""
	}
	b := make([]byte, o.StringLength)
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
	return string(b)
}

// elements are random and finite: floats in [0, 1), booleans, integers of all bits.
func elements(d tensor.Datatype, n int, random *rand.Rand) []byte {
	b := make([]byte, n*d.Size())
	size := d.Size()
	for i := range n {
		e := b[i*size : (i+1)*size]
		switch d {
		case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
			putFloat(e, d, random.Float64())
		case tensor.Bool:
			e[0] = byte(random.IntN(2))
		default:
			v := random.Uint64()
			for k := range e {
				e[k] = byte(v >> (8 * k))
			}
		}
	}
	return b
}

// batch joins the data of as many steps as a request has, in turn, and adds the
// batch dimension.
func batch(stream []Step, o *Options) ([]Step, error) {
	if !o.Batches {
		return stream, nil
	}
	out := make([]Step, len(stream))
	for i := range stream {
		out[i].At = stream[i].At
		for k := range o.Batch {
			from := stream[i]
			if !o.Sequence {
				from = stream[(i*o.Batch+k)%len(stream)]
			}
			var err error
			if out[i].Inputs, err = join(out[i].Inputs, from.Inputs, k == 0); err != nil {
				return nil, err
			}
			if out[i].Expected, err = join(out[i].Expected, from.Expected, k == 0); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func join(to, from []Tensor, first bool) ([]Tensor, error) {
	if first {
		to = make([]Tensor, len(from))
		for i, t := range from {
			to[i] = Tensor{
				Name: t.Name, Datatype: t.Datatype, Bytes: slices.Clone(t.Bytes), Shape: append(tensor.Shape{1}, t.Shape...),
			}
		}
		return to, nil
	}
	if len(to) != len(from) {
		return nil, fmt.Errorf("requests of one batch have different inputs")
	}
	for i, t := range from {
		if to[i].Name != t.Name || !slices.Equal(to[i].Shape[1:], t.Shape) {
			return nil, fmt.Errorf("can not batch tensors with different shapes together (input '%s' expected shape %v and received %v)",
				to[i].Name, to[i].Shape[1:], t.Shape)
		}
		to[i].Bytes = append(to[i].Bytes, t.Bytes...)
		to[i].Shape[0]++
	}
	return to, nil
}
