package openvino

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/internal/modelfile"
	"github.com/nesoserve/neso/tensor"
)

// network is a compiled model. Any number of requests run it.
type network struct {
	api      *api
	core     uintptr // of this model alone, or 0
	compiled uintptr
	inputs   []port
	outputs  []port
	uses     atomic.Int64
}

// port is an input or output as the model has it.
type port struct {
	name     string
	names    []string // of the configuration, that mean it too
	datatype tensor.Datatype
	element  int32        // its place in the list of elementNames
	shape    tensor.Shape // -1 for an open dimension
	unranked bool
}

// defaultFilename is the file of a version.
const defaultFilename = "model.xml"

// modelFile returns the path of the model.
func modelFile(cfg *backend.Config) (string, error) {
	name := cfg.Filename
	if name == "" {
		name = defaultFilename
	}
	path, err := modelfile.Path(cfg, name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", backend.Errorf(backend.Unavailable, "unable to find '%s' for model '%s'", name, cfg.Name)
	}
	if info.Mode().IsRegular() && info.Size() == 0 {
		return "", backend.Errorf(backend.InvalidArg, "unable to load model '%s': '%s' is empty", cfg.Name, name)
	}
	if strings.HasSuffix(path, ".onnx") {
		if err := modelfile.External(cfg, path); err != nil {
			return "", err
		}
	}
	for kind, weights := range weightsOf {
		if stem, ok := strings.CutSuffix(path, kind); ok {
			if err := modelfile.Plain(cfg, stem+weights); err != nil {
				return "", err
			}
		}
	}
	return path, nil
}

// weightsOf maps the ending of a model's file to the ending of the file beside it
// that has the weights.
var weightsOf = map[string]string{".xml": ".bin", ".pdmodel": ".pdiparams"}

// reading is a model that is read and not yet compiled.
type reading struct {
	api         *api
	core, model uintptr
	own         bool // the core is no other model's
	inputs      []port
	outputs     []port
}

// read reads the model file of a version.
func (d *driver) read(cfg *backend.Config, o *options) (*reading, error) {
	a, err := d.library(cfg)
	if err != nil {
		return nil, err
	}
	path, err := modelFile(cfg)
	if err != nil {
		return nil, err
	}
	r := &reading{api: a}
	if err := r.open(cfg, o, path); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *reading) open(cfg *backend.Config, o *options, path string) (err error) {
	a := r.api
	r.core = a.core
	if o.extension != "" {
		// Operators that one model adds are not seen by others.
		if r.core, err = a.newCore(); err != nil {
			return explain(cfg, "", err)
		}
		r.own = true
		extension := o.extension
		if !filepath.IsAbs(extension) {
			extension = filepath.Join(cfg.Directory, extension)
		}
		text := library.CString(extension)
		if err := a.call(fnAddExtension, r.core, uintptr(unsafe.Pointer(text))); err != nil {
			return backend.Errorf(backend.InvalidArg, "unable to load model '%s': %s '%s' cannot be loaded: %v", cfg.Name, paramExtension,
				o.extension, err)
		}
	}
	file, model := library.CString(path), new(uintptr)
	if err := a.call(fnReadModel, r.core, uintptr(unsafe.Pointer(file)), 0, uintptr(unsafe.Pointer(model))); err != nil {
		return explain(cfg, path, err)
	}
	r.model = *model
	return r.describe(cfg, path)
}

// describe reads what the model has, again after a reshape.
func (r *reading) describe(cfg *backend.Config, path string) (err error) {
	if r.inputs, err = r.ports(fnModelInputs, fnModelInput, "input"); err != nil {
		return explain(cfg, path, err)
	}
	if r.outputs, err = r.ports(fnModelOutputs, fnModelOutput, "output"); err != nil {
		return explain(cfg, path, err)
	}
	// A tensor may have several names, of which the library tells one.
	r.nameAlso(r.inputs, cfg.Inputs, fnModelInputByName)
	r.nameAlso(r.outputs, cfg.Outputs, fnModelOutputByName)
	return nil
}

func (r *reading) nameAlso(ports []port, ios []backend.IO, byName int) {
	for i := range ios {
		if find(ports, ios[i].Name) != nil {
			continue
		}
		name, at := library.CString(ios[i].Name), new(uintptr)
		if !r.api.succeeds(byName, r.model, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(at))) {
			continue
		}
		if own, err := r.api.portName(*at); err == nil {
			if p := find(ports, own); p != nil {
				p.names = append(p.names, ios[i].Name)
			}
		}
		r.api.free(fnPortFree, *at)
	}
}

// find returns the port with the name, or nil.
func find(ports []port, name string) *port {
	if i := slices.IndexFunc(ports, func(p port) bool { return p.name == name || slices.Contains(p.names, name) }); i >= 0 {
		return &ports[i]
	}
	return nil
}

// maxPorts is more than a model has: beyond it a file is corrupt.
const maxPorts = 1 << 16

func (r *reading) ports(count, byIndex int, what string) ([]port, error) {
	n := new(uintptr)
	if err := r.api.call(count, r.model, uintptr(unsafe.Pointer(n))); err != nil {
		return nil, err
	}
	if *n > maxPorts {
		return nil, fmt.Errorf("the model has %d %ss", *n, what)
	}
	var all []port
	for i := range *n {
		at := new(uintptr)
		if err := r.api.call(byIndex, r.model, i, uintptr(unsafe.Pointer(at))); err != nil {
			return nil, err
		}
		p, err := r.api.portAt(*at, fmt.Sprintf("%s_%d", what, i))
		r.api.free(fnPortFree, *at)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (a *api) portName(at uintptr) (string, error) {
	text := new(uintptr)
	if err := a.call(fnPortName, at, uintptr(unsafe.Pointer(text))); err != nil {
		return "", err
	}
	name := library.GoString(*text)
	a.free(fnFree, *text)
	return name, nil
}

// portAt describes a port; otherwise names one that has no name.
func (a *api) portAt(at uintptr, otherwise string) (port, error) {
	p := port{}
	var err error
	if p.name, err = a.portName(at); err != nil || p.name == "" {
		p.name = otherwise
	}
	element := new(int32)
	if err := a.call(fnPortElement, at, uintptr(unsafe.Pointer(element))); err != nil {
		return p, err
	}
	shift := int32(a.elements[tensor.Bool] - elementNumbers[tensor.Bool])
	p.element, p.datatype = *element-shift, a.datatypeOf(*element)
	shape := new(partialShape)
	if err := a.call(fnPortShape, at, uintptr(unsafe.Pointer(shape))); err != nil {
		return p, err
	}
	defer a.functions[fnPartialShapeFree].Call(uintptr(unsafe.Pointer(shape)))
	if shape.rank.min != shape.rank.max {
		p.unranked = true
		return p, nil
	}
	p.shape = tensor.Shape{}
	if shape.rank.max > 0 {
		for _, d := range unsafe.Slice((*dimension)(library.Pointer(shape.dims)), int(shape.rank.max)) {
			size := int64(-1)
			if d.min == d.max {
				size = d.max
			}
			p.shape = append(p.shape, size)
		}
	}
	return p, nil
}

// dimension is a range of sizes; an open one is 0 to -1 or to the largest
// number, by version.
type dimension struct{ min, max int64 }

// partialShape is the library's shape with open dimensions.
type partialShape struct {
	rank dimension
	dims uintptr
}

// fit gives the inputs the shapes that the configuration needs.
func (r *reading) fit(cfg *backend.Config, o *options, path string) error {
	var places []uintptr
	var shapes []partialShape
	var pins runtime.Pinner
	defer pins.Unpin()
	for i := range r.inputs {
		p := &r.inputs[i]
		want := r.wanted(cfg, o, p)
		if want == nil || p.unranked || want.Equal(p.shape) {
			if !p.unranked || want == nil {
				continue
			}
		}
		dims := make([]dimension, max(1, len(want)))
		for k, size := range want {
			dims[k] = dimension{size, size}
			if size == -1 {
				dims[k] = dimension{0, -1}
			}
		}
		pins.Pin(&dims[0])
		places = append(places, uintptr(i))
		shapes = append(shapes, partialShape{rank: dimension{int64(len(want)), int64(len(want))}, dims: uintptr(unsafe.Pointer(&dims[0]))})
	}
	if len(places) == 0 {
		return nil
	}
	pins.Pin(&places[0])
	pins.Pin(&shapes[0])
	if err := r.api.call(fnReshape, r.model, uintptr(unsafe.Pointer(&places[0])), uintptr(unsafe.Pointer(&shapes[0])),
		uintptr(len(places))); err != nil {
		return backend.Errorf(backend.InvalidArg, "unable to load model '%s': its inputs cannot have the shapes of the configuration: %v "+
			"(write max_batch_size: 0 with the model's own dims, or set %s to YES)",
			cfg.Name, err, paramSkipBatch)
	}
	return r.describe(cfg, path)
}

// wanted is the shape that an input should have, nil for its own.
func (r *reading) wanted(cfg *backend.Config, o *options, p *port) tensor.Shape {
	i := slices.IndexFunc(cfg.Inputs, func(io backend.IO) bool { return io.Name == p.name || slices.Contains(p.names, io.Name) })
	batch := int64(-1)
	if o.padding {
		batch = int64(cfg.MaxBatchSize)
	}
	switch {
	case o.reshape && i >= 0 && cfg.MaxBatchSize > 0:
		return append(tensor.Shape{batch}, cfg.Inputs[i].Dims...)
	case o.reshape && i >= 0:
		return cfg.Inputs[i].Dims
	case cfg.MaxBatchSize > 0 && !o.skipBatch && !p.unranked && len(p.shape) > 0:
		want := p.shape.Clone()
		want[0] = batch
		return want
	}
	return nil
}

// compile makes the model ready to run.
func (r *reading) compile(cfg *backend.Config, o *options, path string) (*network, error) {
	a := r.api
	if err := r.checkDevice(cfg, o); err != nil {
		return nil, err
	}
	compiled, err := a.compile(r.core, r.model, o.device, o.properties)
	if err != nil {
		return nil, explain(cfg, path, err)
	}
	n := &network{api: a, compiled: compiled, inputs: r.inputs, outputs: r.outputs}
	if r.own {
		n.core, r.own = r.core, false // it goes with the network
	}
	n.uses.Store(1)
	return n, nil
}

// checkDevice says what there is when a device is missing.
func (r *reading) checkDevice(cfg *backend.Config, o *options) error {
	has, err := r.api.devices(r.core)
	if err != nil {
		return explain(cfg, "", err)
	}
	name, rest, virtual := strings.Cut(o.device, ":")
	wanted := []string{name}
	if slices.Contains([]string{"AUTO", "MULTI", "HETERO", "BATCH"}, name) {
		wanted = nil
		if virtual {
			wanted = strings.Split(rest, ",")
		}
	}
	for _, w := range wanted {
		w, _, _ = strings.Cut(strings.TrimPrefix(w, "-"), "(")
		base, number, _ := strings.Cut(w, ".")
		if slices.ContainsFunc(has, func(d string) bool {
			return d == w || d == base && (number == "" || number == "0") || strings.HasPrefix(d, w+".")
		}) {
			continue
		}
		return backend.Errorf(backend.Unavailable,
			"unable to load model '%s': OpenVINO has no device '%s' here; it has %s (a GPU or NPU needs its driver; %s chooses another one)",
			cfg.Name, w, strings.Join(has, ", "), paramDevice)
	}
	return nil
}

func (r *reading) close() {
	r.api.free(fnModelFree, r.model)
	if r.own {
		r.api.free(fnCoreFree, r.core)
	}
	r.model, r.own = 0, false
}

// drop ends one use of the network; the last one frees it.
func (n *network) drop() {
	if n.uses.Add(-1) > 0 {
		return
	}
	n.api.free(fnCompiledFree, n.compiled)
	n.api.free(fnCoreFree, n.core)
}

// explain makes an error of a load say what, where and what to do.
func explain(cfg *backend.Config, path string, err error) error {
	text := err.Error()
	name := filepath.Base(path)
	if path != "" {
		text = strings.ReplaceAll(strings.ReplaceAll(text, cfg.VersionDirectory+string(os.PathSeparator), ""), cfg.VersionDirectory, "")
	}
	if memory := library.MemoryHint(text); memory != "" {
		return backend.Errorf(backend.Unavailable, "unable to load model '%s': '%s': %s%s", cfg.Name, name, strings.TrimSpace(text), memory)
	}
	hint := "is the file whole, and of a version that this OpenVINO reads?"
	for kind, weights := range weightsOf {
		if strings.HasSuffix(name, kind) {
			hint = "are the file and its " + weights + " whole, and beside each other?"
		}
	}
	return backend.Errorf(backend.InvalidArg, "unable to load model '%s': '%s' cannot be read: %s (%s)", cfg.Name, name,
		strings.TrimSpace(text), hint)
}
