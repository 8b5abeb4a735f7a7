package model

import (
	"encoding/binary"
	"strings"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/tensor"
)

// checkBytes walks a BYTES input, which must hold exactly n elements.
func (o *io) checkBytes(r *infer.Request, t *tensor.Tensor, n int64) error {
	const where = "for inference input '%s' for model '%s'"
	seen := int64(0)
	for data := t.Data; len(data) > 0; seen++ {
		if len(data) < 4 {
			return fault(r, "incomplete string length indicator "+where+", expecting 4 bytes but only %d bytes available. "+
				"Please make sure the string length indicator is in one buffer.", t.Name, o.config.Name, len(data))
		}
		if seen >= n {
			return fault(r, "unexpected number of string elements %d "+where+", expecting %d", seen+1, t.Name, o.config.Name, n)
		}
		size := binary.LittleEndian.Uint32(data)
		data = data[4:]
		if uint64(size) > uint64(len(data)) {
			return fault(r, "incomplete string data "+where+", expecting string of length %d but only %d bytes available.",
				t.Name, o.config.Name, size, len(data))
		}
		data = data[size:]
	}
	if seen != n {
		return fault(r, "expected %d string elements "+where+", got %d", n, t.Name, o.config.Name, seen)
	}
	return nil
}

// wrongCount says which inputs came and which are missing.
func (o *io) wrongCount(r *infer.Request) error {
	got := make([]string, 0, len(r.Inputs))
	for i := range r.Inputs {
		got = append(got, r.Inputs[i].Name)
	}
	var missing []string
	for i := range o.config.Inputs {
		in := &o.config.Inputs[i]
		if !in.Optional && r.Input(in.Name) == nil {
			missing = append(missing, in.Name)
		}
	}
	const rest = "but got %d inputs for model '%s'. Got input(s) %s, but missing required input(s) %s. Please provide all required input(s)."
	if o.required == len(o.config.Inputs) {
		return fault(r, "expected %d inputs "+rest, o.required, len(r.Inputs), o.config.Name, quoted(got), quoted(missing))
	}
	return fault(r, "expected number of inputs between %d and %d "+rest,
		o.required, len(o.config.Inputs), len(r.Inputs), o.config.Name, quoted(got), quoted(missing))
}

// quoted returns names in the form ['A','B'].
func quoted(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	return "['" + strings.Join(names, "','") + "']"
}
