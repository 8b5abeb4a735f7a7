package onnxruntime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
)

// validate holds a configuration to the model. Every fault is told at once,
// each in Triton's words with what the model has and what to write.
func validate(cfg *backend.Config, c *modelConfig, s *session) error {
	v := &validation{cfg: cfg, c: c, s: s}
	v.inputs()
	v.outputs()
	if len(v.faults) == 0 {
		return nil
	}
	return backend.Errorf(v.code, "%s", strings.Join(v.faults, "; "))
}

type validation struct {
	cfg    *backend.Config
	c      *modelConfig
	s      *session
	faults []string
	code   backend.Code
}

// fault notes Triton's text and what to do.
func (v *validation) fault(code backend.Code, text, hint string) {
	if len(v.faults) == 0 {
		v.code = code
	}
	if hint != "" {
		text += " (" + hint + ")"
	}
	v.faults = append(v.faults, text)
}

func (v *validation) inputs() {
	cfg := v.cfg
	given := map[string]bool{}
	for i := range cfg.Inputs {
		given[cfg.Inputs[i].Name] = true
	}
	for i := range cfg.BatchInputs {
		given[cfg.BatchInputs[i].Name] = true
	}
	var missing []string
	for i := range v.s.inputs {
		if in := &v.s.inputs[i]; !given[in.name] {
			missing = append(missing, describe(in, cfg.MaxBatchSize > 0))
		}
	}
	if len(missing) > 0 {
		v.fault(backend.InvalidArg,
			fmt.Sprintf("unable to load model '%s', configuration expects %d inputs, model provides %d", cfg.Name, len(given), len(v.s.inputs)),
			"the configuration lacks "+strings.Join(missing, ", "))
	}
	for i := range cfg.Inputs {
		v.input(&cfg.Inputs[i])
	}
	for i := range cfg.BatchInputs {
		in := &cfg.BatchInputs[i]
		found := v.model(in.Name)
		if found == nil {
			v.unexpected("input", in.Name, slices.Concat(v.s.inputs, v.s.initializers))
			continue
		}
		v.datatype("input", in, found)
	}
}

// model returns what the model says of an input, or nil.
func (v *validation) model(name string) *tensorInfo {
	for _, list := range [][]tensorInfo{v.s.inputs, v.s.initializers} {
		if i := slices.IndexFunc(list, func(t tensorInfo) bool { return t.name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

func (v *validation) input(in *backend.IO) {
	cfg := v.cfg
	found := v.model(in.Name)
	if found == nil {
		if v.isControl(in.Name) {
			v.fault(backend.Internal, fmt.Sprintf("configuration specified sequence control '%s', but model does not provide that input", in.Name),
				"")
			return
		}
		v.unexpected("input", in.Name, slices.Concat(v.s.inputs, v.s.initializers))
		return
	}
	if !v.datatype("input", in, found) {
		return
	}
	if in.Ragged {
		if len(found.shape) != 1 || found.shape[0] != -1 {
			// Triton's text has two blanks behind the shape.
			v.fault(backend.InvalidArg, fmt.Sprintf(
				"unable to load model '%s', configuration expects model provides input with shape [-1]  for ragged input '%s', model provides %s",
				cfg.Name, in.Name, found.shape), "a ragged batch is one list of all elements")
		}
		return
	}
	v.dims("input", in, found)
}

func (v *validation) outputs() {
	for i := range v.cfg.Outputs {
		out := &v.cfg.Outputs[i]
		at := slices.IndexFunc(v.s.outputs, func(t tensorInfo) bool { return t.name == out.Name })
		if at < 0 {
			v.unexpected("output", out.Name, v.s.outputs)
			continue
		}
		found := &v.s.outputs[at]
		if !v.datatype("output", out, found) {
			continue
		}
		if slices.ContainsFunc(v.cfg.Scattered, func(s backend.Scattered) bool { return s.Output == out.Name }) {
			continue // the shape of an input says how it is divided
		}
		v.dims("output", out, found)
	}
}

func (v *validation) unexpected(what, name string, model []tensorInfo) {
	names := make([]string, len(model))
	for i := range model {
		names[i] = model[i].name
	}
	hint := ""
	for _, n := range names {
		if strings.EqualFold(n, name) || strings.EqualFold(strings.TrimSuffix(n, ":0"), name) {
			hint = "write '" + n + "'"
		}
	}
	v.fault(backend.InvalidArg, fmt.Sprintf("unexpected inference %s '%s', allowed %ss are: %s", what, name, what, strings.Join(names, ", ")),
		hint)
}

// datatype compares datatypes and says whether they fit.
func (v *validation) datatype(what string, io *backend.IO, found *tensorInfo) bool {
	cfg := v.cfg
	switch {
	case found.kind != kindTensor:
		v.fault(backend.Unsupported, fmt.Sprintf("Unsupported ONNX Type 'ONNX_TYPE_%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'.",
			onnxType(found.kind), found.name), kindHint(found.kind))
		return false
	case found.datatype == tensor.Invalid:
		v.fault(backend.Unsupported, fmt.Sprintf("%s '%s' of model '%s' has datatype %s, which the protocol does not have", what, found.name,
			cfg.Name, found.typeName()), "add a Cast to the model")
		return false
	case found.datatype != io.Datatype:
		v.fault(backend.InvalidArg, fmt.Sprintf("unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s",
			cfg.Name, io.Datatype.ConfigName(), what, io.Name, found.typeName()), "write data_type: "+found.typeName())
		return false
	}
	return true
}

func onnxType(kind string) string {
	return strings.ToUpper(strings.ReplaceAll(kind, " ", ""))
}

func kindHint(kind string) string {
	if kind == "sequence" || kind == "map" {
		return "classifiers of skl2onnx give tensors when they are converted with options={'zipmap': False}"
	}
	return ""
}

// dims compares shapes. A dimension that the model leaves open takes any; one
// that it fixes must be the same.
func (v *validation) dims(what string, io *backend.IO, found *tensorInfo) {
	cfg, batching := v.cfg, v.cfg.MaxBatchSize > 0
	if found.unranked || what == "output" && len(found.shape) == 0 && v.s.env.minor < hasShapeSince && !batching {
		return // it may have any shape
	}
	if len(found.shape) == 0 && !batching {
		for _, d := range io.Dims {
			if d != 1 {
				v.fault(backend.InvalidArg, fmt.Sprintf("unable to load model '%s', scalar tensor '%s', should only provide 1 in the model "+
					"configuration when the model doesn't support batching. Model configuration provided: %s.",
					cfg.Name, io.Name, io.Dims), "write dims: [ 1 ]")
				return
			}
		}
		return
	}
	if !batching {
		if !fits(found.shape, io.Dims) {
			v.fault(backend.InvalidArg, fmt.Sprintf(
				"model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model configuration specifies %d dimensions (shape %s)",
				cfg.Name, io.Name, len(found.shape), found.shape, len(io.Dims), io.Dims), "write "+completion.Write(found.shape, false))
		}
		return
	}
	if len(found.shape) == 0 || found.shape[0] != -1 {
		v.fault(backend.InvalidArg, fmt.Sprintf("model '%s', tensor '%s': for the model to support batching the shape should have at least 1 "+
			"dimension and the first dimension must be -1; but shape expected by the model is %s",
			cfg.Name, io.Name, found.shape), "write max_batch_size: 0, or export the model with a dynamic first dimension")
		return
	}
	full := append(tensor.Shape{-1}, io.Dims...)
	if !fits(found.shape, full) {
		v.fault(backend.InvalidArg, fmt.Sprintf("model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model "+
			"configuration specifies %d dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, "+
			"making complete shape %s)",
			cfg.Name, io.Name, len(found.shape), found.shape, len(full), full), "write "+completion.Write(found.shape, true))
	}
}

// fits compares the model's shape with the configuration's.
func fits(model, config tensor.Shape) bool {
	if len(model) != len(config) {
		return false
	}
	for i, d := range model {
		if d != -1 && d != config[i] {
			return false
		}
	}
	return true
}

// describe writes a tensor of the model as a configuration would have it.
func describe(t *tensorInfo, batching bool) string {
	return fmt.Sprintf("'%s' (data_type: %s, %s)", t.name, t.typeName(), completion.Write(t.shape, batching))
}

// isControl reports whether an input carries a sequence control.
func (v *validation) isControl(name string) bool {
	if v.c.SequenceBatching == nil {
		return false
	}
	for _, control := range v.c.SequenceBatching.ControlInput {
		if control.Name == name {
			return true
		}
	}
	return false
}
