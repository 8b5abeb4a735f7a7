package fil

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// forest is a loaded model. Any number of threads may ask it.
type forest struct {
	api      *api
	handle   uintptr
	config   uintptr // how to predict: on the calling thread
	format   format
	features int
	trees    int
	targets  int
	classes  []int32         // for each target
	width    int             // the most classes of a target
	datatype tensor.Datatype // of what goes in and comes out: FP32 or FP64
	typeName *byte           // the same for C
	stamp    string
	uses     atomic.Int64
	// The same laid out for speed; nil where it cannot be.
	flat32 *flat[float32]
	flat64 *flat[float64]
}

// outputs is how many numbers a row gives.
func (f *forest) outputs() int { return f.targets * f.width }

// loadFile reads a model file of the format.
func (a *api) loadFile(path string, kind format, o *options) (*forest, error) {
	name := library.CString(path)
	settings := library.CString(fmt.Sprintf(`{"allow_unknown_field": %t}`, o.unknownField))
	handle := new(uintptr)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(name)
	pins.Pin(settings)
	pins.Pin(handle)
	place := map[format]int{
		xgboostLegacy: fnLoadXGBoostLegacy, xgboostJSON: fnLoadXGBoostJSON, xgboostUBJSON: fnLoadXGBoostUBJSON, lightGBM: fnLoadLightGBM,
	}
	var err error
	if at, ok := place[kind]; ok {
		err = a.call(at, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(settings)), uintptr(unsafe.Pointer(handle)))
	} else {
		err = a.call(fnDeserializeFile, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(handle)))
	}
	if err != nil {
		return nil, err
	}
	f := &forest{api: a, handle: *handle, format: kind}
	f.uses.Store(1)
	if err := f.inspect(); err != nil {
		f.Drop()
		return nil, err
	}
	f.layOut()
	return f, nil
}

// inspect reads what the model is, and holds what came out of the file to what
// the library takes for granted: it checks no index when it predicts.
func (f *forest) inspect() error {
	a := f.api
	input, err := a.text(fnGetInputType, f.handle)
	if err != nil {
		return err
	}
	output, err := a.text(fnGetOutputType, f.handle)
	if err != nil {
		return err
	}
	switch {
	case input == "float32" && output == input:
		f.datatype = tensor.FP32
	case input == "float64" && output == input:
		f.datatype = tensor.FP64
	default:
		return fmt.Errorf("the model computes with %s and gives %s, expected float32 or float64 for both", input, output)
	}
	f.typeName = library.CString(input)
	count := new(uintptr)
	number := new(int32)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(count)
	pins.Pin(number)
	if err := a.call(fnQueryNumTree, f.handle, uintptr(unsafe.Pointer(count))); err != nil {
		return err
	}
	if err := a.call(fnQueryNumFeature, f.handle, uintptr(unsafe.Pointer(number))); err != nil {
		return err
	}
	f.trees, f.features = int(*count), int(*number)
	if err := f.inspectHeader(); err != nil {
		return err
	}
	for i := range f.trees {
		if err := f.inspectTree(i); err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
	}
	if f.config, err = a.configuration(); err != nil {
		return err
	}
	// The library looks at shapes and at the last step of a prediction only when
	// it predicts.
	row, answer := make([]float64, f.features), make([]float64, f.outputs())
	for i := range row {
		row[i] = math.NaN()
	}
	if f.datatype == tensor.FP32 {
		narrow := make([]float32, f.features)
		for i := range narrow {
			narrow[i] = float32(math.NaN())
		}
		return f.predict(unsafe.Pointer(&narrow[0]), 1, unsafe.Pointer(&answer[0]))
	}
	return f.predict(unsafe.Pointer(&row[0]), 1, unsafe.Pointer(&answer[0]))
}

// configuration makes the library's description of a prediction: one thread,
// the caller's.
func (a *api) configuration() (uintptr, error) {
	text := library.CString(`{"predict_type": "default", "nthread": 1}`)
	out := new(uintptr)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(text)
	pins.Pin(out)
	err := a.call(fnParseConfig, uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(out)))
	return *out, err
}

// Limits of what is taken for a model: beyond them a file is corrupt.
const (
	maxFeatures = 1 << 24
	maxOutputs  = 1 << 20
)

func (f *forest) inspectHeader() error {
	one := func(name string) (int32, error) {
		v, err := field[int32](f.api, f.handle, -1, name)
		if err == nil && len(v) != 1 {
			err = fmt.Errorf("header %s has %d values, expected 1", name, len(v))
		}
		if err != nil {
			return 0, err
		}
		return v[0], nil
	}
	targets, err := one("num_target")
	if err != nil {
		return err
	}
	classes, err := field[int32](f.api, f.handle, -1, "num_class")
	if err != nil {
		return err
	}
	shape, err := field[int32](f.api, f.handle, -1, "leaf_vector_shape")
	if err != nil {
		return err
	}
	switch {
	case f.features < 1 || f.features > maxFeatures:
		return fmt.Errorf("the model has %d features", f.features)
	case f.trees < 1:
		return fmt.Errorf("the model has no trees")
	case targets < 1 || targets > maxOutputs || len(classes) != int(targets) || len(shape) != 2:
		return fmt.Errorf("the model has %d targets, and numbers of classes for %d", targets, len(classes))
	case slices.Min(classes) < 1 || int64(slices.Max(classes))*int64(targets) > maxOutputs:
		return fmt.Errorf("the model has %d to %d classes", slices.Min(classes), slices.Max(classes))
	}
	f.targets, f.classes, f.width = int(targets), slices.Clone(classes), int(slices.Max(classes))
	for name, limit := range map[string]int{"target_id": f.targets, "class_id": f.width} {
		ids, err := field[int32](f.api, f.handle, -1, name)
		if err != nil {
			return err
		}
		if len(ids) != f.trees || slices.Min(ids) < -1 || int(slices.Max(ids)) >= limit {
			return fmt.Errorf("header %s does not fit %d trees and %d outputs", name, f.trees, limit)
		}
	}
	scores, err := field[float64](f.api, f.handle, -1, "base_scores")
	if err != nil {
		return err
	}
	if len(scores) != f.outputs() {
		return fmt.Errorf("the model has %d base scores, expected %d", len(scores), f.outputs())
	}
	return nil
}

// inspectTree follows a tree from its root.
func (f *forest) inspectTree(tree int) error {
	left, err := field[int32](f.api, f.handle, tree, "cleft")
	if err != nil {
		return err
	}
	right, err := field[int32](f.api, f.handle, tree, "cright")
	if err != nil {
		return err
	}
	split, err := field[int32](f.api, f.handle, tree, "split_index")
	if err != nil {
		return err
	}
	nodes := len(left)
	if nodes == 0 || len(right) != nodes || len(split) != nodes {
		return fmt.Errorf("it has %d, %d and %d nodes", nodes, len(right), len(split))
	}
	for _, list := range []string{"category_list", "leaf_vector"} {
		if err := f.inspectRanges(tree, nodes, list); err != nil {
			return err
		}
	}
	seen := make([]bool, nodes)
	waiting := []int32{0}
	for len(waiting) > 0 {
		n := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if seen[n] {
			return fmt.Errorf("node %d is reached twice", n)
		}
		seen[n] = true
		if left[n] == -1 {
			continue // a leaf
		}
		if s := split[n]; s < 0 || int(s) >= f.features {
			return fmt.Errorf("node %d asks for feature %d of %d", n, s, f.features)
		}
		for _, child := range []int32{left[n], right[n]} {
			if child < 0 || int(child) >= nodes {
				return fmt.Errorf("node %d leads to node %d of %d", n, child, nodes)
			}
			waiting = append(waiting, child)
		}
	}
	return nil
}

// inspectRanges checks the parts that the nodes have of a common list.
func (f *forest) inspectRanges(tree, nodes int, list string) error {
	begin, err := field[uint64](f.api, f.handle, tree, list+"_begin")
	if err != nil {
		return err
	}
	end, err := field[uint64](f.api, f.handle, tree, list+"_end")
	if err != nil {
		return err
	}
	var all int
	switch {
	case list == "category_list":
		v, e := field[uint32](f.api, f.handle, tree, list)
		all, err = len(v), e
	case f.datatype == tensor.FP32:
		v, e := field[float32](f.api, f.handle, tree, list)
		all, err = len(v), e
	default:
		v, e := field[float64](f.api, f.handle, tree, list)
		all, err = len(v), e
	}
	if err != nil {
		return err
	}
	if len(begin) != nodes || len(end) != nodes {
		return fmt.Errorf("%s has %d and %d ends for %d nodes", list, len(begin), len(end), nodes)
	}
	for n := range begin {
		if begin[n] > end[n] || end[n] > uint64(all) {
			return fmt.Errorf("node %d has %s %d to %d of %d", n, list, begin[n], end[n], all)
		}
	}
	return nil
}

// predict computes rows. Both places have the elements of the forest's
// datatype and stay where they are during the call.
func (f *forest) predict(in unsafe.Pointer, rows int, out unsafe.Pointer) error {
	a := f.api
	status := int32(a.functions[fnPredict].Call(f.handle, uintptr(in), uintptr(unsafe.Pointer(f.typeName)), uintptr(rows), uintptr(out),
		f.config))
	runtime.KeepAlive(f)
	if status == 0 {
		return nil
	}
	// An error's text belongs to the thread. To hold it during a call that works
	// costs a thread switch each, so that only one that fails is made again.
	if err := a.call(fnPredict, f.handle, uintptr(in), uintptr(unsafe.Pointer(f.typeName)), uintptr(rows), uintptr(out),
		f.config); err != nil {
		return backend.Errorf(backend.Internal, "%v", err)
	}
	return nil
}

// Drop ends one use of the forest; the last one frees it.
func (f *forest) Drop() {
	if f.uses.Add(-1) > 0 {
		return
	}
	if f.config != 0 {
		_ = f.api.call(fnDeleteConfig, f.config) // nothing is left to do about it
	}
	_ = f.api.call(fnFreeModel, f.handle)
}
