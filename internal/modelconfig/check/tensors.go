package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
	"github.com/nesoserve/neso/tensor"
)

const (
	wantDimension = "integers of at least 1, or -1 for any size"
	wantDatatype  = "one of TYPE_BOOL, TYPE_UINT8, ..., TYPE_STRING, TYPE_BF16"
)

// io checks inputs and outputs.
func (v *validator) io() {
	v.unique("input", len(v.pb.Input), func(i int) string { return v.pb.Input[i].GetName() })
	for i, in := range v.pb.Input {
		at := "input[" + strconv.Itoa(i) + "]"
		v.tensor("model input ", at, in)
		if in.Format != inferencepb.ModelInput_FORMAT_NONE && len(in.Dims) != 3 {
			v.add(at+".dims", "3 dims for "+in.Format.String(), strconv.Itoa(len(in.Dims)),
				"model input NHWC/NCHW require 3 dims for %s", v.pb.Name)
		}
		v.tensorRTOnly(at, in.IsShapeTensor, in.IsNonLinearFormatIo)
		if in.IsNonLinearFormatIo && v.pb.Platform == platform.TensorRT && len(in.Dims) != 3 {
			v.add(at+".dims", "3 dims", strconv.Itoa(len(in.Dims)), "Non-linear IO format input requires 3 dims for %s", v.pb.Name)
		}
	}
	v.unique("output", len(v.pb.Output), func(i int) string { return v.pb.Output[i].GetName() })
	for i, out := range v.pb.Output {
		at := "output[" + strconv.Itoa(i) + "]"
		v.tensor("model output ", at, out)
		v.tensorRTOnly(at, out.IsShapeTensor, out.IsNonLinearFormatIo)
	}
}

// unique refuses two tensors of one name: requests could not tell them apart.
func (v *validator) unique(kind string, n int, name func(int) string) {
	seen := map[string]bool{}
	for i := range n {
		if name(i) != "" && seen[name(i)] {
			v.add(kind+"["+strconv.Itoa(i)+"].name", "a name of its own", fault.Quote(name(i))+" twice",
				"model %s '%s' is specified more than once for %s", kind, name(i), v.pb.Name)
		}
		seen[name(i)] = true
	}
}

// unreadNames reports whether the names of the n tensors of a kind are not all known.
func (v *validator) unreadNames(kind string, n int) bool {
	unread := v.from.Unread(kind)
	for i := range n {
		unread = unread || v.from.Unread(kind+"["+strconv.Itoa(i)+"].name")
	}
	return unread
}

// declared is what inputs and outputs have in common.
type declared interface {
	GetName() string
	GetDataType() inferencepb.DataType
	GetDims() []int64
	GetReshape() *inferencepb.ModelTensorReshape
}

func (v *validator) tensor(prefix, at string, t declared) {
	if t.GetName() == "" {
		v.add(at+".name", "a name", "nothing", "%smust specify 'name' for %s", prefix, v.pb.Name)
	} else {
		prefix += "'" + t.GetName() + "' "
	}
	if dt := tensor.Datatype(min(max(t.GetDataType(), 0), 255)); !dt.Valid() {
		found := "nothing"
		if t.GetDataType() != 0 {
			found = strconv.Itoa(int(t.GetDataType()))
		}
		v.add(at+".data_type", wantDatatype, found, "%smust specify 'data_type' for %s", prefix, v.pb.Name)
	}
	if len(t.GetDims()) == 0 {
		v.add(at+".dims", "at least one dimension", "none", "%smust specify 'dims' for %s", prefix, v.pb.Name)
	}
	whole := true
	for i, d := range t.GetDims() {
		if d < 1 && d != -1 {
			whole = false
			v.add(at+".dims["+strconv.Itoa(i)+"]", wantDimension, strconv.FormatInt(d, 10),
				"%sdimension must be integer >= 1, or -1 to indicate a variable-size dimension for %s", prefix, v.pb.Name)
		}
	}
	if whole && len(t.GetDims()) > 0 && t.GetReshape() != nil {
		v.reshape(prefix, at, t.GetDims(), t.GetReshape().Shape)
	}
}

// reshape checks that a reshape moves no element past a dimension of any size:
// the fixed dimensions before, between and after those must have the same
// product on both sides.
func (v *validator) reshape(prefix, at string, dims, shape []int64) {
	at += ".reshape"
	found := shapeText(shape) + " for dims " + shapeText(dims)
	if len(shape) == 0 && v.pb.MaxBatchSize == 0 {
		if !v.from.Unread("max_batch_size") {
			v.add(at, "at least one dimension, or max_batch_size above 0", found,
				"%scannot have empty reshape for non-batching model as scalar tensors are not supported for %s", prefix, v.pb.Name)
		}
		return
	}
	bad := false
	for i, d := range shape {
		if d < 1 && d != -1 {
			bad = true
			v.add(at+".shape["+strconv.Itoa(i)+"]", wantDimension, strconv.FormatInt(d, 10),
				"%sreshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for %s", prefix, v.pb.Name)
		}
	}
	if bad {
		return
	}
	a, b := fixedParts(dims), fixedParts(shape)
	const want = "as many elements as dims, part by part between the dimensions of any size"
	switch {
	case len(a) != len(b) && len(a) > 1 && len(b) > 1:
		v.add(at+".shape", "as many dimensions of any size as dims", found,
			"%shas different number of variable-size dimensions for dims and reshape for %s", prefix, v.pb.Name)
	case !slices.Equal(a, b):
		v.add(at+".shape", want, found, "%shas different size for dims and reshape for %s", prefix, v.pb.Name)
	}
}

// fixedParts returns the element counts of the runs of fixed dimensions: one
// more than there are wildcards. A count that overflows is -1 in place of the
// number, with what overflowed: equal only for equal runs.
func fixedParts(shape []int64) []string {
	parts, run := []string{}, tensor.Shape{}
	flush := func() {
		n, err := run.Elements()
		if err != nil {
			parts = append(parts, shapeText(run))
		} else {
			parts = append(parts, strconv.FormatInt(n, 10))
		}
		run = run[:0]
	}
	for _, d := range shape {
		if d == -1 {
			flush()
			continue
		}
		run = append(run, d)
	}
	flush()
	return parts
}

func shapeText(s []int64) string { return tensor.Shape(s).String() }

func (v *validator) tensorRTOnly(at string, shapeTensor, nonLinear bool) {
	if v.pb.Platform == platform.TensorRT || v.from.Unread(platform.Fields...) {
		return
	}
	if shapeTensor {
		v.add(at+".is_shape_tensor", "false", "true", "shape tensors are only supported for TensorRT platform for %s", v.pb.Name)
	}
	if nonLinear {
		v.add(at+".is_non_linear_format_io", "false", "true",
			"Non-linear IO format is only supported for the TensorRT platform for %s", v.pb.Name)
	}
}

// labels checks that the label files lie in the model's directory.
func (v *validator) labels() {
	for i, out := range v.pb.Output {
		if out.LabelFilename == "" || Local(out.LabelFilename) {
			continue
		}
		f := v.from.Fault("output["+strconv.Itoa(i)+"].label_filename",
			fmt.Sprintf("label file path '%s' for output '%s' in model '%s' is outside model directory",
				out.LabelFilename, out.Name, v.pb.Name), "a path inside the model's directory", fault.Quote(out.LabelFilename))
		f.Code = backend.Unsupported
		v.faults.Add(f)
	}
}

// Local reports whether a path stays below the directory that it starts
// from. Repositories move between systems, so both separators count.
func Local(name string) bool {
	name = strings.ReplaceAll(name, `\`, "/")
	clean := path.Clean(name)
	return !path.IsAbs(name) && (len(name) <= 1 || name[1] != ':') && clean != ".." && !strings.HasPrefix(clean, "../") &&
		!strings.ContainsRune(name, 0)
}

// batchIO checks the tensors of ragged batching.
func (v *validator) batchIO() {
	inputs, outputs := map[string]bool{}, map[string]bool{}
	for _, in := range v.pb.Input {
		inputs[in.GetName()] = true
	}
	for _, out := range v.pb.Output {
		outputs[out.GetName()] = true
	}
	anyInput, anyOutput := v.unreadNames("input", len(v.pb.Input)), v.unreadNames("output", len(v.pb.Output))
	sources := func(at, kind string, names []string) {
		if len(names) != 1 && !v.from.Unread(at+".kind") {
			side, _, _ := strings.Cut(at, "[")
			v.add(at+".source_input", "1 input", strconv.Itoa(len(names)), "%s kind '%s' expects 1 source input, got %d for %s",
				strings.Replace(side, "_", " ", 1), kind, len(names), v.pb.Name)
		}
	}
	known := func(at string, names []string) {
		for i, s := range names {
			if !inputs[s] && !anyInput {
				v.add(at+".source_input["+strconv.Itoa(i)+"]", "the name of an input", fault.Quote(s),
					"unknown source input name '%s' for %s", s, v.pb.Name)
			}
		}
	}
	for i, b := range v.pb.BatchInput {
		at := "batch_input[" + strconv.Itoa(i) + "]"
		sources(at, b.Kind.String(), b.SourceInput)
		if b.DataType != inferencepb.DataType_TYPE_INT32 && b.DataType != inferencepb.DataType_TYPE_FP32 {
			v.add(at+".data_type", "TYPE_INT32 or TYPE_FP32", b.DataType.String(),
				"batch input data type must be TYPE_INT32 or TYPE_FP32 for %s", v.pb.Name)
		}
		known(at, b.SourceInput)
	}
	for i, b := range v.pb.BatchOutput {
		at := "batch_output[" + strconv.Itoa(i) + "]"
		sources(at, b.Kind.String(), b.SourceInput)
		known(at, b.SourceInput)
		named := map[string]bool{}
		for j, t := range b.TargetName {
			target := at + ".target_name[" + strconv.Itoa(j) + "]"
			switch {
			case !outputs[t] && !anyOutput:
				v.add(target, "the name of an output", fault.Quote(t), "unknown target output name '%s' for %s", t, v.pb.Name)
			case named[t]:
				v.add(target, "each output once", fault.Quote(t)+" again",
					"target output name '%s' can only be specified once for %s", t, v.pb.Name)
			}
			named[t] = true
		}
	}
}
