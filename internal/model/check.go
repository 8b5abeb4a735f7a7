package model

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// io is what checks of requests and responses need of the configuration.
type io struct {
	config    *modelconfig.Config
	batching  bool
	arrange   bool     // inputs are brought into the configuration's order
	loose     bool     // the backend has checked which outputs there are, and their shapes
	extras    bool     // outputs that were not asked for go to the client too
	strict    bool     // outputs that are not as configured are errors
	requested []string // all outputs, and then those of hidden, shared by the requests that name none
	hidden    []string // outputs that carry the state of a sequence
	extra     int      // those of hidden that no client can ask for
	required  int      // inputs that are not optional
	ragged    map[string]bool
	byName    map[string]int // inputs, when there are too many to scan
	stats     *stats.Version
	odd       func(outputs []string, found string) // outputs are not as configured, for the first time
}

// Above this number of inputs a map is faster than comparing names.
const scanLimit = 8

func (o *io) init(c *modelconfig.Config) {
	o.config, o.batching = c, c.MaxBatchSize > 0
	for i := range c.Outputs {
		o.requested = append(o.requested, c.Outputs[i].Name)
	}
	if c.Sequence != nil {
		for i := range c.Sequence.States {
			name := c.Sequence.States[i].Output
			if slices.Contains(o.hidden, name) {
				continue
			}
			o.hidden = append(o.hidden, name)
			if c.Output(name) == nil {
				o.requested = append(o.requested, name)
				o.extra++
			}
		}
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		if !in.Optional {
			o.required++
		}
		if in.AllowRagged {
			if o.ragged == nil {
				o.ragged = map[string]bool{}
			}
			o.ragged[in.Name] = true
		}
	}
	if len(c.Inputs) > scanLimit {
		o.byName = make(map[string]int, len(c.Inputs))
		for i := range c.Inputs {
			o.byName[c.Inputs[i].Name] = i
		}
	}
}

// input returns the index of an input in the configuration, or -1. Requests
// mostly name inputs in the configuration's order, hence the guess.
func (o *io) input(name string, guess int) int {
	c := o.config
	if guess < len(c.Inputs) && c.Inputs[guess].Name == name {
		return guess
	}
	if o.byName != nil {
		if i, ok := o.byName[name]; ok {
			return i
		}
		return -1
	}
	for i := range c.Inputs {
		if c.Inputs[i].Name == name {
			return i
		}
	}
	return -1
}

// longestID is what a frame to a worker has room for. Such a request is refused here: there
// it would have all fail that are in a batch with it.
const longestID = 1<<16 - 1

// check holds a request to the configuration, in the peer's order and words: of
// several wrong inputs the last one is named, as that mostly does, and of two
// always. It normalizes it: Requested and BatchSize are set, reshapes applied, inputs
// put in the configuration's order unless the backend keeps the client's.
func (o *io) check(r *infer.Request) error {
	if len(r.ID) > longestID || len(r.Correlation.Text) > longestID {
		return backend.Errorf(backend.InvalidArg, "request id and correlation id may have at most %d bytes", longestID)
	}
	if len(r.Requested) == 0 {
		r.Requested, r.Hidden = o.requested, o.extra
	} else {
		for i, name := range r.Requested {
			if o.config.Output(name) == nil {
				return backend.Errorf(backend.InvalidArg, "unexpected inference output '%s' for model '%s'", name, o.config.Name)
			}
			// Those of a model's own request are a set.
			if !r.Internal && slices.Contains(r.Requested[:i], name) {
				return fault(r, "output '%s' already exists in request", name)
			}
		}
	}
	if r.Hidden == 0 && len(o.hidden) > 0 && !o.wantsAll(r) {
		for _, name := range o.hidden {
			if !slices.Contains(r.Requested, name) {
				r.Requested = append(r.Requested, name)
				r.Hidden++
			}
		}
	}
	// A duplicate is a fault before a wrong count is: the peer adds inputs one by one.
	for i := 1; i < len(r.Inputs); i++ {
		if o.duplicate(r, i) {
			return fault(r, "input '%s' already exists in request", r.Inputs[i].Name)
		}
	}
	if n := len(r.Inputs); n < o.required || n > len(o.config.Inputs) {
		return o.wrongCount(r)
	}
	if err := o.checkBatch(r); err != nil {
		return err
	}
	for i := len(r.Inputs) - 1; i >= 0; i-- {
		t := &r.Inputs[i]
		in := &o.config.Inputs[o.input(t.Name, i)]
		if err := o.checkInput(r, t, in); err != nil {
			return err
		}
	}
	last, ordered := -1, true
	for i := range r.Inputs {
		t := &r.Inputs[i]
		at := o.input(t.Name, i)
		ordered, last = ordered && at > last, at
		if in := &o.config.Inputs[at]; in.HasReshape {
			t.Shape = reshape(t.Shape, in.Dims, in.Reshape, o.batching)
		}
	}
	if o.arrange && !ordered {
		slices.SortFunc(r.Inputs, func(a, b tensor.Tensor) int { return o.input(a.Name, 0) - o.input(b.Name, 0) })
	}
	return nil
}

// duplicate reports whether an input before the i-th has its name. Beyond
// scanLimit only requests with more inputs than the model are quadratic, and
// those are refused after as many comparisons as the model has inputs.
func (o *io) duplicate(r *infer.Request, i int) bool {
	if i > len(o.config.Inputs) {
		return false
	}
	for j := range i {
		if r.Inputs[j].Name == r.Inputs[i].Name {
			return true
		}
	}
	return false
}

// checkBatch finds the batch size, inputs that the model does not have, and
// required ones that are missing though the count is right.
func (o *io) checkBatch(r *infer.Request) error {
	size, required := int64(-1), 0
	for i := len(r.Inputs) - 1; i >= 0; i-- {
		t := &r.Inputs[i]
		at := o.input(t.Name, i)
		if at < 0 {
			return backend.Errorf(backend.InvalidArg, "unexpected inference input '%s' for model '%s'", t.Name, o.config.Name)
		}
		if !o.config.Inputs[at].Optional {
			required++
		}
		if !o.batching || o.config.Inputs[at].ShapeTensor {
			continue
		}
		if len(t.Shape) == 0 {
			return fault(r, "input '%s' has no shape but model requires batch dimension for '%s'", t.Name, o.config.Name)
		}
		if t.Shape[0] < 0 {
			return fault(r, "All input dimensions should be specified for input '%s' for model '%s', got %s", t.Name, o.config.Name, t.Shape)
		}
		if size >= 0 && t.Shape[0] != size {
			return fault(r, "input '%s' batch size does not match other inputs for '%s'", t.Name, o.config.Name)
		}
		size = t.Shape[0]
	}
	if required < o.required { // optional inputs in their place
		return o.wrongCount(r)
	}
	r.BatchSize = 0
	if !o.batching {
		return nil
	}
	if size > int64(o.config.MaxBatchSize) {
		return fault(r, "inference request batch-size must be <= %d for '%s'", o.config.MaxBatchSize, o.config.Name)
	}
	if size < 0 { // no input says: all are optional, or shape tensors
		size = 1
	}
	r.BatchSize = int(size)
	return nil
}

const batchNote = "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input " +
	"shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. " +
	"See the model configuration docs for more info on max_batch_size."

func (o *io) checkInput(r *infer.Request, t *tensor.Tensor, in *modelconfig.Input) error {
	if t.Datatype != in.Datatype {
		return fault(r, "inference input '%s' data-type is '%s', but model '%s' expects '%s'", t.Name, t.Datatype, o.config.Name, in.Datatype)
	}
	batching := o.batching && !in.ShapeTensor
	dims := t.Shape
	if batching {
		dims = dims[1:]
	}
	if !dims.Matches(in.Dims) && !leftOpen(dims, in.Dims) {
		want, note := in.Dims, ""
		if o.batching {
			want, note = append(tensor.Shape{-1}, want...), batchNote
		}
		return fault(r, "unexpected shape for input '%s' for model '%s'. Expected %s, got %s. %s", t.Name, o.config.Name, want, t.Shape, note)
	}
	if dims.HasWildcard() {
		return fault(r, "All input dimensions should be specified for input '%s' for model '%s', got %s", t.Name, o.config.Name, t.Shape)
	}
	n, err := t.Shape.Elements()
	if err != nil {
		return fault(r, "invalid shape for input '%s': shape %s causes total element count to exceed maximum size of 9223372036854775807", t.Name,
			t.Shape)
	}
	if batching && t.Shape[0] == 0 {
		return o.emptyBatch(r, t)
	}
	if t.Datatype == tensor.Bytes {
		return o.checkBytes(r, t, n)
	}
	size, err := tensor.ByteSize(t.Datatype, t.Shape)
	if err != nil {
		return fault(r,
			"byte size overflow for input '%s': element count (%d) * data type size (%d) exceeds maximum allowed size (9223372036854775807)",
			t.Name, n, t.Datatype.Size())
	}
	if got := int64(t.Size()); size != got {
		return fault(r, "input byte size mismatch for input '%s' for model '%s'. Expected %d, got %d", t.Name, o.config.Name, size, got)
	}
	return nil
}

// leftOpen reports whether what is wrong first with dims of the right rank is
// that a client has left a dimension open.
func leftOpen(dims, pattern tensor.Shape) bool {
	if len(dims) != len(pattern) {
		return false
	}
	for i, d := range dims {
		if d == -1 {
			return true
		}
		if p := pattern[i]; p != -1 && p != d {
			return false
		}
	}
	return false
}

// emptyBatch refuses a batch of size 0. The peer takes it for one element with
// missing bytes. The text is the peer's, followed by the cause.
func (o *io) emptyBatch(r *infer.Request, t *tensor.Tensor) error {
	if n, err := t.Shape[1:].Elements(); t.Datatype == tensor.Bytes && err == nil && n > 0 && len(t.Data) == 0 {
		return fault(r, "expected %d string elements for inference input '%s' for model '%s', got 0: its batch dimension is 0", n, t.Name,
			o.config.Name)
	}
	if want, err := tensor.ByteSize(t.Datatype, t.Shape[1:]); err == nil && want != int64(len(t.Data)) {
		return fault(r, "input byte size mismatch for input '%s' for model '%s'. Expected %d, got %d: its batch dimension is 0", t.Name,
			o.config.Name, want, len(t.Data))
	}
	return fault(r, "inference request batch-size must be >= 1 for '%s'", o.config.Name)
}

// fault is an InvalidArg error that begins with the request's id.
func fault(r *infer.Request, format string, args ...any) error {
	e := backend.Errorf(backend.InvalidArg, format, args...)
	e.Message = r.LogPrefix() + e.Message
	return e
}
