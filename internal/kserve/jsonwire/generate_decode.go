package jsonwire

import (
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Members of a generate request with a meaning of their own.
const (
	generateID     = "id"
	generateNested = "parameters"
	nestedPrefix   = "Converting keyword: '" + generateNested + "': "
)

var (
	errGenerateRoot   = kserve.Invalid("attempt to get members for non-object")
	errGenerateNested = kserve.Invalid("Expected JSON object for keyword: '" + generateNested +
		"': attempt to access JSON non-object as object")
	errGenerateClash = kserve.Invalid("Keyword '" + generateNested + "' for nested schema also given as input tensor name")
)

// DecodeGenerate fills r from the JSON of a generate request: one flat object
// whose members are inputs where the model has one of that name, and custom
// parameters otherwise; `id` is the request's id as well, and the members of
// `parameters` count as if they stood outside. No member has the meaning that
// the parameters of an infer request have. Shapes follow from the number of
// elements. On an error, a fault of the request, r holds the inputs allocated
// so far and is the caller's to release. Limit of body bounds each input; its
// tail is not used.
func (d *Decoder) DecodeGenerate(r *backend.Request, m kserve.Target, body *Body) *backend.Error {
	d.begin(body.JSON, m.Apart)
	defer d.letGo(m)
	if err := d.generateID(r); err != nil {
		return err
	}
	d.s.Reset(body.JSON)
	d.s.Peek()
	return d.object(func(name []byte) *backend.Error {
		if string(name) != generateNested {
			return d.generateMember(r, m, body, name)
		}
		switch {
		case m.Config.Input(generateNested) != nil:
			return errGenerateClash
		case d.s.Peek() != '{':
			return errGenerateNested
		}
		err := d.object(func(name []byte) *backend.Error { return d.generateMember(r, m, body, name) })
		if err != nil {
			return kserve.Invalid(nestedPrefix + err.Message)
		}
		return nil
	})
}

// generateID checks the grammar of the whole text and takes the id out of it:
// errors about inputs name it, wherever it stands.
func (d *Decoder) generateID(r *backend.Request) *backend.Error {
	s := &d.s
	if s.Peek(); s.I == len(s.B) {
		s.Fail(jsonscan.FaultEmpty, s.I)
		return s.Err("request")
	}
	if s.B[s.I] != '{' {
		if !s.Skip() || !s.End() {
			return s.Err("request")
		}
		return errGenerateRoot
	}
	at := 0
	err := d.object(func(name []byte) *backend.Error {
		if string(name) == generateID && at == 0 {
			s.Peek()
			at = s.I
		}
		s.Skip()
		return nil
	})
	if err != nil {
		return err
	}
	if !s.End() {
		return s.Err("request")
	}
	if at == 0 {
		return nil
	}
	s.I = at
	return d.id(r)
}

// generateMember takes one member: an input, or a custom parameter.
func (d *Decoder) generateMember(r *backend.Request, m kserve.Target, body *Body, name []byte) *backend.Error {
	if in := m.Config.Input(jsonscan.View(name)); in != nil {
		return d.generateInput(r, m, body, in)
	}
	if d.params++; d.params > kserve.MaxParameters {
		return kserve.Invalid("too many parameters")
	}
	p, structured, err := d.parameter(name)
	switch {
	case err != nil:
		return err
	case structured:
		return kserve.InvalidParameter(kserve.HTTP, p.Name)
	case p.Kind == backend.UintParameter:
		// JSON has no unsigned parameters: what exceeds an int64 is a number.
		p = backend.Double(p.Name, float64(p.Uint64()))
	}
	r.Parameters = append(r.Parameters, p)
	return nil
}

// generateInput reads the value on which the scanner stands as an input: a
// scalar, or an array whose length is the number of elements.
func (d *Decoder) generateInput(r *backend.Request, m kserve.Target, body *Body, in *modelconfig.Input) *backend.Error {
	n := d.countElements()
	shape, ok := generateShape(in.Dims, m.Config.MaxBatchSize > 0, n)
	if !ok {
		// Of strings the peer takes the length first, which tells what is none.
		if in.Datatype == tensor.Bytes {
			text, err := d.s.strings(d.text[:0])
			if d.text = text; err != nil {
				return err
			}
		}
		return kserve.Invalid("The schema can not convert input '" + in.Name + "' to tensor with proper shape")
	}
	for i := range r.Inputs {
		if r.Inputs[i].Name == in.Name {
			return kserve.Invalid(kserve.RequestPrefix(r.ID) + "input '" + in.Name + "' already exists in request")
		}
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: in.Name, Datatype: in.Datatype, Shape: shape})
	t := &r.Inputs[len(r.Inputs)-1]
	switch in.Datatype {
	case tensor.FP16, tensor.BF16:
		return kserve.Invalid("receiving " + in.Datatype.String() +
			" data via JSON is not supported. Please use the binary data format for input " + in.Name)
	case tensor.Bytes:
		return d.generateStrings(t, m, body, n)
	default:
	}
	size := int64(n) * int64(in.Datatype.Size())
	if err := generateLimit(in.Name, size, body); err != nil {
		return err
	}
	if n == 0 {
		return d.skipTo(nil)
	}
	if err := d.allocate(t, m, int(size)); err != nil {
		return err
	}
	return d.s.data(in.Datatype, t.Data, n)
}

func (d *Decoder) generateStrings(t *tensor.Tensor, m kserve.Target, body *Body, n int) *backend.Error {
	err := d.roomForStrings(m)
	if err != nil {
		return err
	}
	if d.text, err = d.s.strings(d.text[:0]); err != nil {
		return err
	}
	if err := generateLimit(t.Name, int64(len(d.text)), body); err != nil {
		return err
	}
	if countStrings(d.text) != n {
		return errShape
	}
	if err := d.allocate(t, m, len(d.text)); err != nil {
		return err
	}
	copy(t.Data, d.text)
	return nil
}

func countStrings(data []byte) (n int) {
	for range tensor.Elements(data) {
		n++
	}
	return n
}

// countElements returns the length of the array on which the scanner stands,
// or 1 for anything else, and does not move.
func (d *Decoder) countElements() int {
	s := &d.s
	if s.Peek() != '[' {
		return 1
	}
	at, n := s.I, 0
	s.I++
	for first := true; s.NextElement(first); first = false {
		if n++; !s.Skip() {
			break // cannot be: the grammar has been checked
		}
	}
	s.I = at
	return n
}

// generateShape returns the shape of n elements: fixed dimensions as they are,
// the last free one takes what is left, other free ones are 1.
func generateShape(dims tensor.Shape, batched bool, n int) (tensor.Shape, bool) {
	shape := make(tensor.Shape, 0, len(dims)+1)
	if batched {
		shape = append(shape, -1)
	}
	shape = append(shape, dims...)
	left, free := int64(n), -1
	for i, dim := range slices.Backward(shape) {
		switch {
		case dim < 0 && free < 0:
			free = i
		case dim < 0:
			shape[i] = 1
		case dim == 0 && left != 0, dim > 0 && left%dim != 0:
			return nil, false
		case dim > 0:
			left /= dim
		}
	}
	if free >= 0 {
		shape[free] = left
		return shape, true
	}
	return shape, left == 1 || n == 0 && slices.Contains(shape, 0)
}

func generateLimit(name string, size int64, body *Body) *backend.Error {
	if body.Limit <= 0 || size <= body.Limit {
		return nil
	}
	return kserve.Invalid("request size of " + strconv.Itoa(len(body.JSON)) + " bytes with input '" + name + "' of size " +
		strconv.FormatInt(size, 10) +
		" bytes exceeds the maximum allowed input size of " + strconv.FormatInt(body.Limit, 10) +
		". Use --http-max-input-size to increase the limit.")
}
