package jsonwire

import (
	"math"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// input reads one input. Its data goes straight into tensor memory when name,
// shape and datatype stand before it, else once the whole object is known.
func (d *Decoder) input(r *backend.Request, m kserve.Target, body *Body) *backend.Error {
	s := &d.s
	if len(d.inputs) >= maxInputs {
		return kserve.Invalid("too many inputs")
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{})
	d.inputs = append(d.inputs, jsonInput{})
	in, t := &d.inputs[len(d.inputs)-1], &r.Inputs[len(r.Inputs)-1]
	if s.Peek() != '{' {
		if err := d.skipTo(nil); err != nil {
			return err
		}
		return in.source()
	}
	s.I++
	params := false
	for first := true; ; first = false {
		name, ok := s.NextMember(first)
		if !ok {
			break
		}
		var err *backend.Error
		switch {
		case string(name) == "name" && !in.named:
			in.named = true
			err = d.inputName(in, t, m.Config)
		case string(name) == "shape" && !in.shaped:
			in.shaped = true
			err = d.inputShape(in, t)
		case string(name) == "datatype" && !in.typed:
			in.typed = true
			err = d.inputDatatype(in, t)
		case string(name) == "parameters" && !params:
			params = true
			if s.Peek() != '{' {
				s.Skip()
				break
			}
			err = d.object(func(name []byte) *backend.Error { return d.inputParameter(in, name) })
		case string(name) == "data" && !in.data:
			in.data, in.dataAt = true, s.I
			if !in.named || !in.shaped || !in.typed || in.bad != nil || in.binary || !in.region.IsZero() {
				s.Skip()
				break
			}
			in.parsed = true
			err = d.inputData(in, t, m, body)
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
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	return d.finishInput(in, t, m, body)
}

// finishInput checks that the input is complete, and parses data that stood
// before what it depends on.
func (d *Decoder) finishInput(in *jsonInput, t *tensor.Tensor, m kserve.Target, body *Body) *backend.Error {
	if err := in.source(); err != nil {
		return err
	}
	switch {
	case in.bad != nil:
		return in.bad
	case !in.named:
		return missing("name")
	case !in.shaped:
		return missing("shape")
	case !in.typed:
		return missing("datatype")
	case in.parsed:
		return nil
	case in.binary, !in.region.IsZero():
		_, _, err := in.extent(t)
		return err
	}
	end := d.s.I
	d.s.I = in.dataAt
	err := d.inputData(in, t, m, body)
	d.s.I = end
	return err
}

// source checks that there is exactly one source of data.
func (in *jsonInput) source() *backend.Error {
	sources := [...]struct {
		set  bool
		name string
	}{{in.data, " 'data'"}, {in.binary, " 'binary_data_size'"}, {!in.region.IsZero(), " 'shared_memory_region'"}}
	n := 0
	for _, f := range sources {
		if f.set {
			n++
		}
	}
	const text = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
		"'shared_memory_region' in 'parameters'. But "
	switch n {
	case 0:
		return kserve.Invalid(text + "no field is set")
	case 1:
		return nil
	}
	b := append([]byte(text), "set"...)
	for _, f := range sources {
		if f.set {
			b = append(b, f.name...)
		}
	}
	return kserve.Invalid(string(b))
}

// wrong remembers the first member of the wrong type.
func (in *jsonInput) wrong(err *backend.Error) {
	if in.bad == nil {
		in.bad = err
	}
}

func (d *Decoder) inputName(in *jsonInput, t *tensor.Tensor, cfg *modelconfig.Config) *backend.Error {
	if d.s.Peek() != '"' {
		in.wrong(notText("name"))
		return d.skipTo(nil)
	}
	text, ok := d.s.Str()
	if !ok {
		return d.s.Err("request")
	}
	for i := range cfg.Inputs {
		if cfg.Inputs[i].Name == string(text) {
			t.Name = cfg.Inputs[i].Name
			return nil
		}
	}
	t.Name = string(text)
	return nil
}

func (d *Decoder) inputDatatype(in *jsonInput, t *tensor.Tensor) *backend.Error {
	if d.s.Peek() != '"' {
		in.wrong(notText("datatype"))
		return d.skipTo(nil)
	}
	text, ok := d.s.Str()
	if !ok {
		return d.s.Err("request")
	}
	t.Datatype = tensor.LookupDatatype(jsonscan.View(text))
	return nil
}

func (d *Decoder) inputShape(in *jsonInput, t *tensor.Tensor) *backend.Error {
	s := &d.s
	if s.Peek() != '[' {
		in.wrong(errShapeType)
		return d.skipTo(nil)
	}
	s.I++
	if d.shapes == nil {
		d.shapes = make([]int64, 0, 8)
	}
	from := len(d.shapes)
	for first := true; s.NextElement(first); first = false {
		at := s.I
		if c := s.Peek(); c-'0' <= 9 || c == '-' {
			var num jsonscan.Decimal
			if !s.Decimal(&num) {
				return s.Err("request")
			}
			if u, ok := num.Unsigned(s.B); ok {
				if u > math.MaxInt64 {
					u, in.overflown = math.MaxInt64, true
				}
				if len(d.shapes) >= maxDimensions {
					return kserve.Invalid("too many dimensions")
				}
				d.shapes = append(d.shapes, int64(u))
				continue
			}
			s.I = at
		}
		in.wrong(errShapeNumber)
		if !s.Skip() {
			return s.Err("request")
		}
	}
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	// Growing moves the later shapes to new memory; the earlier stay where they are.
	t.Shape = d.shapes[from:len(d.shapes):len(d.shapes)]
	return nil
}

// inputParameter takes a parameter of an input. Unknown ones are ignored.
func (d *Decoder) inputParameter(in *jsonInput, name []byte) *backend.Error {
	switch string(name) {
	case kserve.ParamBinarySize, kserve.ParamRegion, kserve.ParamOffset, kserve.ParamByteSize:
	default:
		return d.skipTo(nil)
	}
	p, structured, err := d.parameter(name)
	if err != nil {
		return err
	}
	if p.Name != kserve.ParamBinarySize {
		if structured {
			p = backend.Double(p.Name, 0) // fits none of them
		}
		if _, err := in.region.SetParameter(kserve.HTTP, p); err != nil {
			in.wrong(err)
		}
		return nil
	}
	in.binary = true
	size, ok := kserve.Unsigned(p)
	if structured || !ok {
		in.wrong(kserve.WrongType(kserve.HTTP, kserve.ParamBinarySize, kserve.UnsignedType))
		return nil
	}
	in.size = size
	return nil
}

// extent returns how many elements and, for fixed-size datatypes, bytes the
// input has.
func (in *jsonInput) extent(t *tensor.Tensor) (elements, size int64, err *backend.Error) {
	n, fault := t.Shape.Elements()
	if fault != nil || in.overflown {
		return 0, 0, sizeError(t.Name, t.Datatype, t.Shape, 0, true)
	}
	if size, fault = tensor.ByteSize(t.Datatype, t.Shape); fault != nil {
		return 0, 0, sizeError(t.Name, t.Datatype, t.Shape, n, false)
	}
	return n, size, nil
}

// takesScalar reports whether a shape without dimensions may be right for an input. Where
// it is not, what is wrong with the request is its shape, whatever its data is.
func takesScalar(cfg *modelconfig.Config, name string) bool {
	in := cfg.Input(name)
	return in != nil && len(in.Dims) == 0 && cfg.MaxBatchSize == 0
}

// inputData parses the data on which the scanner stands into new memory.
func (d *Decoder) inputData(in *jsonInput, t *tensor.Tensor, m kserve.Target, body *Body) *backend.Error {
	s := &d.s
	n, size, err := in.extent(t)
	if err != nil {
		return err
	}
	if n == 0 || len(t.Shape) == 0 && !takesScalar(m.Config, t.Name) {
		return d.skipTo(nil)
	}
	switch t.Datatype {
	case tensor.Invalid:
		return d.skipTo(kserve.Invalid("invalid datatype for input " + t.Name))
	case tensor.FP16, tensor.BF16:
		return d.skipTo(kserve.Invalid("receiving " + t.Datatype.String() +
			" data via JSON is not supported. Please use the binary data format for input " + t.Name))
	default:
	}
	if s.Peek() != '[' {
		return d.skipTo(errDataType)
	}
	if t.Datatype == tensor.Bytes {
		return d.inputStrings(t, m, body)
	}
	if body.Limit > 0 && size > body.Limit {
		return d.skipTo(inputTooBig(t.Name, size, body.Limit))
	}
	// An element takes two bytes of text, so a shape that promises more than
	// the text can hold is refused before there is memory for it.
	if n > int64(len(s.B)-s.I)/2 {
		return d.skipTo(errShape)
	}
	if err := d.allocate(t, m, int(size)); err != nil {
		return err
	}
	return s.data(t.Datatype, t.Data, int(n))
}

func (d *Decoder) inputStrings(t *tensor.Tensor, m kserve.Target, body *Body) *backend.Error {
	err := d.roomForStrings(m)
	if err != nil {
		return err
	}
	if d.text, err = d.s.strings(d.text[:0]); err != nil {
		return err
	}
	if body.Limit > 0 && int64(len(d.text)) > body.Limit {
		return inputTooBig(t.Name, int64(len(d.text)), body.Limit)
	}
	if err := d.allocate(t, m, len(d.text)); err != nil {
		return err
	}
	copy(t.Data, d.text)
	return nil
}

// roomForStrings makes room for the BYTES elements of a large text at once, as
// growing would leave several times of it behind: three bytes of text are four of
// an element at most. It is counted while the text is decoded.
func (d *Decoder) roomForStrings(m kserve.Target) *backend.Error {
	n := (len(d.s.B) - d.s.I) / 3 * 4
	if n <= keepText || n <= cap(d.text) {
		return nil
	}
	if m.Reserver != nil {
		if err := m.Reserver.Reserve(int64(n)); err != nil {
			return err
		}
		d.room += int64(n)
	}
	d.text = make([]byte, 0, n+4)
	return nil
}

// letGo gives back what decoding has needed beside the tensors.
func (d *Decoder) letGo(m kserve.Target) {
	if d.room > 0 {
		m.Reserver.Return(d.room)
		d.room, d.text = 0, nil
	}
}

func inputTooBig(name string, size, limit int64) *backend.Error {
	return kserve.Invalid("JSON input '" + name + "' has a byte_size (" + strconv.FormatInt(size, 10) +
		" bytes) that exceeds the maximum allowed value of " +
		strconv.FormatInt(limit, 10) + " bytes. Use --http-max-input-size to increase the limit.")
}

// allocate gives t memory of its own for what stands in the text, once that is
// reserved: "0," becomes eight bytes.
func (d *Decoder) allocate(t *tensor.Tensor, m kserve.Target, size int) *backend.Error {
	d.decoded += int64(size)
	if more := d.decoded - d.covered; more > 0 && m.Reserver != nil {
		if err := m.Reserver.Reserve(more); err != nil {
			return err
		}
		d.covered = d.decoded
	}
	return kserve.Allocate(t, m.Allocator, size)
}
