package fil

import (
	"fmt"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
)

// validate holds a configuration to the model. Every fault is told at once. A
// forest has one input and one output without names: any will do.
func validate(cfg *backend.Config, o *options, f *forest) error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch {
	case len(cfg.Inputs) != 1:
		fault("unable to load model '%s', configuration expects %d inputs, model provides 1 ('%s', data_type: TYPE_FP32, dims: [ %d ])", cfg.Name,
			len(cfg.Inputs), inputName, f.features)
	default:
		in := &cfg.Inputs[0]
		if in.Datatype != tensor.FP32 && in.Datatype != tensor.FP64 {
			fault("unable to load model '%s', configuration expects datatype %s for input '%s', model provides TYPE_FP32 (write data_type: "+
				"TYPE_FP32, or TYPE_FP64)", cfg.Name, in.Datatype.ConfigName(), in.Name)
		}
		if want := rows(cfg, int64(f.features)); !fits(want, in.Dims) || in.Ragged {
			fault("model '%s', tensor '%s': the model has %d features, the configuration specifies dims %s (write dims: %s)", cfg.Name, in.Name,
				f.features, in.Dims, completion.Dims(want))
		}
	}
	if len(cfg.Outputs) == 0 {
		fault("unable to load model '%s', configuration expects no outputs, model provides 1 ('%s')", cfg.Name, outputName)
	}
	for i := range cfg.Outputs {
		out := &cfg.Outputs[i]
		switch {
		case out.Name == shapName:
			fault("output '%s' of model '%s': Shapley values are not computed here (leave the output out; a Python model with the package shap "+
				"can compute them)", shapName, cfg.Name)
			continue
		case i > 0:
			fault("unexpected inference output '%s': the model has one output", out.Name)
			continue
		}
		if !numeric(out.Datatype, o.classes()) {
			fault(
				"unable to load model '%s', configuration expects datatype %s for output '%s', model provides TYPE_FP32 (write data_type: TYPE_FP32)",
				cfg.Name, out.Datatype.ConfigName(), out.Name)
		}
		want := f.dims(o)
		second := o.classifier && o.proba && f.outputs() == 1 && fits(rows(cfg, 1), out.Dims) // of two classes, Triton's form
		if !second && !fits(rows(cfg, want...), out.Dims) {
			fault("model '%s', tensor '%s': the model gives %s for a row, the configuration specifies dims %s (write dims: %s)", cfg.Name, out.Name,
				f.gives(o), out.Dims, completion.Dims(rows(cfg, want...)))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return backend.Errorf(backend.InvalidArg, "%s", strings.Join(faults, "; "))
}

// gives says in words what a row's answer is.
func (f *forest) gives(o *options) string {
	switch {
	case o.classes() && f.targets == 1:
		return "one class (is_classifier without predict_proba)"
	case o.classes():
		return fmt.Sprintf("%d classes (is_classifier without predict_proba)", f.targets)
	case f.targets > 1:
		return fmt.Sprintf("%d targets with %d numbers each", f.targets, f.width)
	case f.width > 1:
		return fmt.Sprintf("the scores of %d classes", f.width)
	case o.classifier:
		return "the probabilities of 2 classes"
	}
	return "one number"
}

// numeric reports whether an answer can have the datatype.
func numeric(d tensor.Datatype, classes bool) bool {
	return d == tensor.FP32 || d == tensor.FP64 || classes && (d == tensor.Int32 || d == tensor.Int64)
}

// rows puts the dimension of the rows in front where the model does not batch.
func rows(cfg *backend.Config, dims ...int64) tensor.Shape {
	if cfg.MaxBatchSize > 0 {
		return dims
	}
	return append(tensor.Shape{-1}, dims...)
}

// fits compares dims: any number of rows will do, and a trailing dimension of
// one number may be missing.
func fits(want, has tensor.Shape) bool {
	if len(has) == len(want)-1 && len(has) > 0 && want[len(want)-1] == 1 {
		want = want[:len(want)-1]
	}
	if len(want) != len(has) {
		return false
	}
	for i := range want {
		if want[i] != -1 && has[i] != want[i] {
			return false
		}
	}
	return true
}
