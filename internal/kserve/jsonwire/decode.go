package jsonwire

import (
	"io"
	"math"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/tensor"
)

// Body is the body of an infer request: JSON, then the binary tail.
type Body struct {
	JSON []byte
	// Tail is what has been read of the binary tail already.
	Tail []byte
	// Rest gives the other RestSize bytes of the tail; nil when there are none.
	Rest     io.Reader
	RestSize int64
	// Limit bounds the size of one input given as JSON.
	Limit int64
}

// Decoder reads one infer request after another. The zero value is ready.
type Decoder struct {
	s      scanner
	inputs []jsonInput
	shapes []int64
	text   []byte // BYTES elements before their size is known
	params int
	// decoded are the bytes of tensors that came as JSON, covered how many of them
	// have been reserved: at first those of the text.
	decoded, covered int64
	// room is what has been reserved for text.
	room int64

	plain  bool // the text has neither an id nor a parameter that the request keeps
	latest repeat
}

// jsonInput is what has been seen of one input.
type jsonInput struct {
	region                                        kserve.RegionRef
	size                                          uint64 // binary_data_size
	dataAt                                        int    // where `data` stands in the text
	named, shaped, typed, data, binary, overflown bool
	parsed                                        bool // data is in place
	// bad is a member of the wrong type, reported only when the input has
	// exactly one source of data, as Triton does.
	bad *backend.Error
}

// What one request may have of things that take more memory than text.
const (
	maxInputs     = 1 << 14
	maxDimensions = 1 << 16 // of all inputs
)

// keepText is how much memory a decoder holds on to between requests.
const keepText = 1 << 20

// Decode fills r and c from the body: identity, parameters, inputs in memory
// of the model's allocator, requested outputs. Inputs in shared memory have no
// data before Call.ReadRegions. On any error r holds the inputs allocated so far
// and is the caller's to release. The error is a
// *backend.Error for a fault of the request, else the one of Rest.
func (d *Decoder) Decode(r *backend.Request, c *kserve.ResponseOptions, m kserve.Target, body *Body) error {
	if err := d.Document(r, c, m, body); err != nil {
		return err
	}
	return d.Tail(r, m, body)
}

// Document is the part of Decode that reads the JSON; Tail has to follow when it
// has no error.
func (d *Decoder) Document(r *backend.Request, c *kserve.ResponseOptions, m kserve.Target, body *Body) error {
	if d.again(body.JSON, r, c, m.Config) {
		return nil
	}
	d.begin(body.JSON, m.Apart)
	defer d.letGo(m)
	if err := d.document(r, c, m, body); err != nil {
		return err
	}
	d.remember(body.JSON, r, c, m.Config)
	for i := range d.inputs {
		if region := &d.inputs[i].region; !region.IsZero() {
			if err := c.OpenInput(m, i, region); err != nil {
				return err
			}
		}
	}
	if err := c.OpenOutputs(m); err != nil {
		return err
	}
	return nil
}

// begin makes the decoder ready for the next text.
func (d *Decoder) begin(text []byte, apart bool) {
	d.s.Reset(text)
	d.inputs, d.params, d.plain = d.inputs[:0], 0, true
	if d.decoded, d.covered = 0, int64(len(text)); apart {
		d.covered = 0
	}
	// The request keeps its shapes, possibly longer than this decoder works on it.
	d.shapes = nil
	if cap(d.text) > keepText {
		d.text = nil
	}
	if cap(d.s.Text) > keepText {
		d.s.Text = nil
	}
}

// document parses the JSON.
func (d *Decoder) document(r *backend.Request, c *kserve.ResponseOptions, m kserve.Target, body *Body) error {
	s := &d.s
	if s.Peek(); s.I == len(s.B) {
		s.Fail(jsonscan.FaultEmpty, s.I)
		return s.Err("request")
	}
	var id, params, inputs, outputs bool
	if s.B[s.I] != '{' {
		if !s.Skip() || !s.End() {
			return s.Err("request")
		}
		return errNoInputs
	}
	s.I++
	for first := true; ; first = false {
		name, ok := s.NextMember(first)
		if !ok {
			break
		}
		// Of members with the same name the first one counts.
		var err *backend.Error
		switch {
		case string(name) == "id" && !id:
			id, d.plain = true, false
			err = d.id(r)
		case string(name) == "parameters" && !params:
			params = true
			err = d.parameters(r, c)
		case string(name) == "inputs" && !inputs:
			inputs = true
			err = d.list(errInputsType, func() *backend.Error { return d.input(r, m, body) })
		case string(name) == "outputs" && !outputs:
			outputs = true
			err = d.list(errOutputsType, func() *backend.Error { return d.output(r, c, m) })
		default:
			s.Skip()
		}
		if err != nil {
			return err
		}
		if s.Bad != jsonscan.FaultNone {
			break
		}
	}
	if s.Bad != jsonscan.FaultNone || !s.End() {
		return s.Err("request")
	}
	if !inputs {
		return errNoInputs
	}
	return nil
}

var (
	errNoInputs    = missing("inputs")
	errInputsType  = kserve.Invalid("Unable to parse 'inputs': attempt to access JSON non-array as array")
	errOutputsType = kserve.Invalid("Unable to parse 'outputs': attempt to access JSON non-array as array")
	errDataType    = kserve.Invalid("Unable to parse 'data': attempt to access JSON non-array as array")
	errShapeType   = kserve.Invalid("Unable to parse 'shape': attempt to access JSON non-array as array")
	errShapeNumber = kserve.Invalid("Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer")
	errParameters  = kserve.Invalid("failed to get request params.: attempt to get members for non-object")
)

func missing(member string) *backend.Error {
	return kserve.Invalid("Unable to parse '" + member + "': attempt to access non-existing object member '" + member + "'")
}

func notText(member string) *backend.Error {
	return kserve.Invalid("Unable to parse '" + member + "': attempt to access JSON non-string as string")
}

// skipTo passes the value and returns err, or the fault found in it.
func (d *Decoder) skipTo(err *backend.Error) *backend.Error {
	if !d.s.Skip() {
		return d.s.Err("request")
	}
	return err
}

func (d *Decoder) id(r *backend.Request) *backend.Error {
	if d.s.Peek() != '"' {
		return d.skipTo(notText("id"))
	}
	text, ok := d.s.Str()
	if !ok {
		return d.s.Err("request")
	}
	r.ID = string(text)
	return nil
}

// list calls item on every element of the array on which the scanner stands.
func (d *Decoder) list(wrong *backend.Error, item func() *backend.Error) *backend.Error {
	s := &d.s
	if s.Peek() != '[' {
		return d.skipTo(wrong)
	}
	s.I++
	for first := true; s.NextElement(first); first = false {
		if err := item(); err != nil {
			return err
		}
	}
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	return nil
}

// parameter reads a value as a parameter; structured is set for objects,
// arrays and null.
func (d *Decoder) parameter(name []byte) (p backend.Parameter, structured bool, err *backend.Error) {
	s := &d.s
	p.Name = internParameter(name)
	switch c := s.Peek(); c {
	case '"':
		text, ok := s.Str()
		if !ok {
			return p, false, s.Err("request")
		}
		return backend.String(p.Name, string(text)), false, nil
	case 't', 'f':
		word := "false"
		if c == 't' {
			word = "true"
		}
		if !s.Word(word) {
			return p, false, s.Err("request")
		}
		return backend.Bool(p.Name, c == 't'), false, nil
	case '{', '[', 'n':
		return p, true, d.skipTo(nil)
	}
	var num jsonscan.Decimal
	if !s.Decimal(&num) {
		return p, false, s.Err("request")
	}
	if i, ok := num.Signed(); ok {
		return backend.Int(p.Name, i), false, nil
	}
	if u, ok := num.Unsigned(s.B); ok {
		return backend.Uint(p.Name, u), false, nil
	}
	f, ok := s.Float64(&num)
	if !ok {
		return p, false, s.Err("request")
	}
	return backend.Double(p.Name, f), false, nil
}

// internParameter returns the name as a string, without allocating for those
// that have a meaning.
func internParameter(name []byte) string {
	for _, known := range [...]string{
		kserve.ParamBinaryOutput, kserve.ParamBinarySize, kserve.ParamBinaryData, kserve.ParamSequenceID,
		kserve.ParamSequenceStart, kserve.ParamSequenceEnd,
		kserve.ParamPriority, kserve.ParamTimeout, kserve.ParamClassification, kserve.ParamRegion, kserve.ParamOffset, kserve.ParamByteSize,
	} {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}

func (d *Decoder) parameters(r *backend.Request, c *kserve.ResponseOptions) *backend.Error {
	if d.s.Peek() != '{' {
		return d.skipTo(errParameters)
	}
	return d.object(func(name []byte) *backend.Error {
		if d.params++; d.params > kserve.MaxParameters {
			return kserve.Invalid("too many parameters")
		}
		p, structured, err := d.parameter(name)
		switch {
		case err != nil:
			return err
		case structured:
			return kserve.WrongParameter(kserve.HTTP, p.Name)
		}
		d.plain = d.plain && p.Name == kserve.ParamBinaryOutput
		return c.SetParameter(kserve.HTTP, r, p)
	})
}

// object calls member on every member of the object on which the scanner
// stands, with the scanner on the value.
func (d *Decoder) object(member func(name []byte) *backend.Error) *backend.Error {
	s := &d.s
	s.I++
	for first := true; ; first = false {
		name, ok := s.NextMember(first)
		if !ok {
			break
		}
		if err := member(name); err != nil {
			return err
		}
		if s.Bad != jsonscan.FaultNone {
			break
		}
	}
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	return nil
}

// output reads one requested output.
func (d *Decoder) output(r *backend.Request, c *kserve.ResponseOptions, m kserve.Target) *backend.Error {
	s := &d.s
	if s.Peek() != '{' {
		return d.skipTo(missing("name"))
	}
	var o *kserve.OutputRequest
	at := 0
	err := d.object(func(name []byte) (err *backend.Error) {
		switch {
		case string(name) == "name" && o == nil:
			if s.Peek() != '"' {
				return d.skipTo(notText("name"))
			}
			text, ok := s.Str()
			if !ok {
				return s.Err("request")
			}
			o, err = c.AddOutput(m.Config, r, text)
			return err
		case string(name) == "parameters" && at == 0:
			// They need the name first, which may come later.
			at = s.I
		}
		s.Skip()
		return nil
	})
	if err != nil {
		return err
	}
	if o == nil {
		return missing("name")
	}
	if at == 0 {
		return nil
	}
	end := s.I
	s.I = at
	if s.Peek() == '{' {
		if err := d.object(func(name []byte) *backend.Error { return d.outputParameter(o, name) }); err != nil {
			return err
		}
	}
	s.I = end
	return o.Check(kserve.HTTP)
}

func (d *Decoder) outputParameter(o *kserve.OutputRequest, name []byte) *backend.Error {
	p, structured, err := d.parameter(name)
	if err != nil {
		return err
	}
	if structured { // no kind fits: let the meaning refuse what it knows
		switch p.Name {
		case kserve.ParamBinaryData, kserve.ParamClassification, kserve.ParamOffset, kserve.ParamByteSize:
			p = backend.String(p.Name, "")
		case kserve.ParamRegion:
			p = backend.Bool(p.Name, false)
		default:
			return nil
		}
	}
	return o.SetParameter(kserve.HTTP, p)
}

// copied reserves what is in memory of a binary tail already, and will be there
// once more.
func copied(m *kserve.Target, body *Body) error {
	if m.Apart && m.Reserver != nil && len(body.Tail) > 0 {
		if err := m.Reserver.Reserve(int64(len(body.Tail))); err != nil {
			return err
		}
	}
	return nil
}

// Tail is the part of Decode that reads the binary inputs out of the tail. It may
// wait for what has not come.
func (d *Decoder) Tail(r *backend.Request, m kserve.Target, body *Body) error {
	left := uint64(len(body.Tail)) + uint64(body.RestSize)
	total, count := 0, int32(0)
	for i := range d.inputs {
		in := &d.inputs[i]
		if !in.binary {
			continue
		}
		if in.size > left {
			return kserve.Invalid("unexpected size for input '" + r.Inputs[i].Name + "', expecting " +
				strconv.FormatUint(in.size-left, 10) + " additional bytes for model '" + m.Config.Name + "'")
		}
		left -= in.size
		if in.size > 0 {
			total = tensor.Align(total) + int(in.size)
			count++
		}
	}
	if left > 0 {
		return kserve.Invalid("unexpected additional input data for model '" + m.Config.Name + "'")
	}
	if count == 0 {
		return nil
	}
	if err := copied(&m, body); err != nil {
		return err
	}
	buf, err := m.Allocator.Allocate(total)
	if err != nil {
		return backend.AsError(err)
	}
	at, used := 0, 0
	for i := range d.inputs {
		in, t := &d.inputs[i], &r.Inputs[i]
		if !in.binary || in.size == 0 {
			continue
		}
		if used++; used > 1 {
			buf.Retain()
		}
		at = tensor.Align(at)
		t.Buffer = buf
		t.Data = buf.Bytes()[at : at+int(in.size) : at+int(in.size)]
		at += int(in.size)
	}
	for i := range d.inputs {
		if !d.inputs[i].binary || d.inputs[i].size == 0 {
			continue
		}
		dst := r.Inputs[i].Data
		n := copy(dst, body.Tail)
		body.Tail = body.Tail[n:]
		if n < len(dst) {
			if _, err := io.ReadFull(body.Rest, dst[n:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeError is the error for an input whose size cannot be had.
func sizeError(name string, dt tensor.Datatype, shape tensor.Shape, n int64, overflown bool) *backend.Error {
	if overflown {
		return kserve.Invalid("invalid shape for input '" + name + "': shape " + shape.String() +
			" causes total element count to exceed maximum size of " + strconv.FormatInt(math.MaxInt64, 10))
	}
	return kserve.Invalid("byte size overflow for input '" + name + "': element count (" + strconv.FormatInt(n, 10) +
		") * data type size (" + strconv.Itoa(dt.Size()) +
		") exceeds maximum allowed size (" + strconv.FormatInt(math.MaxInt64, 10) + ")")
}
