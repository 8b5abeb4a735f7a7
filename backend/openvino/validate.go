package openvino

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
)

// validate holds a configuration to the model. Every fault is told at once,
// with what the model has and what to write.
func validate(cfg *backend.Config, r *reading) error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	given := slices.Concat(cfg.Inputs, cfg.BatchInputs)
	var missing []port
	for i := range r.inputs {
		p := &r.inputs[i]
		if !slices.ContainsFunc(given, func(io backend.IO) bool { return find(r.inputs, io.Name) == p }) {
			missing = append(missing, *p)
		}
	}
	if len(missing) > 0 {
		fault("unable to load model '%s', configuration expects %d inputs, model provides %d (the configuration lacks %s)", cfg.Name, len(given),
			len(r.inputs), list(cfg, missing))
	}
	for _, io := range cfg.BatchInputs {
		fault("model '%s', tensor '%s': batch_input is not supported by the openvino backend (the backend onnxruntime has it for ONNX files)",
			cfg.Name, io.Name)
	}
	batching := cfg.MaxBatchSize > 0
	check := func(what string, ios []backend.IO, ports []port) {
		for i := range ios {
			io := &ios[i]
			p := find(ports, io.Name)
			switch {
			case p == nil:
				fault("unexpected inference %s '%s', allowed %ss are: %s", what, io.Name, what, names(ports))
			case p.datatype == tensor.Invalid:
				fault("%v", unsupported(cfg, p))
			case p.datatype != io.Datatype:
				fault("unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s (write data_type: %s)",
					cfg.Name, io.Datatype.ConfigName(), what, io.Name, p.datatype.ConfigName(), p.datatype.ConfigName())
			case io.Ragged || io.Optional:
				fault("model '%s', tensor '%s': ragged and optional inputs are not supported by the openvino backend", cfg.Name, io.Name)
			case !p.unranked:
				want := p.shape
				has := io.Dims
				if batching {
					has = append(tensor.Shape{-1}, io.Dims...)
				}
				scalar := len(want) == 0 && !batching && has.Equal(tensor.Shape{1})
				if !scalar && !fits(want, has, batching) {
					fault("model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model configuration specifies %d dimensions "+
						"(shape %s) (write %s)",
						cfg.Name, io.Name, len(want), want, len(has), has, completion.Write(want, batching))
				}
			}
		}
	}
	check("input", cfg.Inputs, r.inputs)
	check("output", cfg.Outputs, r.outputs)
	if len(faults) == 0 {
		return nil
	}
	return backend.Errorf(backend.InvalidArg, "%s", strings.Join(faults, "; "))
}

// fits compares the model's shape with the configuration's; batch leaves the
// first dimension out.
func fits(model, config tensor.Shape, batch bool) bool {
	if len(model) != len(config) {
		return false
	}
	for i, d := range model {
		if d != -1 && d != config[i] && (i > 0 || !batch) {
			return false
		}
	}
	return true
}

func names(ports []port) string {
	all := make([]string, len(ports))
	for i := range ports {
		all[i] = ports[i].name
	}
	return strings.Join(all, ", ")
}

// list writes tensors of the model as a configuration would have them.
func list(cfg *backend.Config, ports []port) string {
	all := make([]string, len(ports))
	for i := range ports {
		all[i] = fmt.Sprintf("'%s' (data_type: %s, %s)", ports[i].name, ports[i].datatype.ConfigName(),
			completion.Write(ports[i].shape, cfg.MaxBatchSize > 0))
	}
	return strings.Join(all, ", ")
}
