package onnxruntime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/faults"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/internal/processors"
)

// Graph optimization levels of ONNX Runtime.
const (
	optimizeNothing  = 0
	optimizeBasic    = 1
	optimizeExtended = 2
	optimizeAll      = 99
)

// Parameters of a model configuration, with Triton's names.
const (
	paramIntraThreads  = "intra_op_thread_count"
	paramInterThreads  = "inter_op_thread_count"
	paramExecutionMode = "execution_mode"
	paramMemArena      = "enable_mem_arena"
	paramMemPattern    = "enable_mem_pattern"
	paramShrink        = "memory.enable_memory_arena_shrinkage"
	// paramShare says whether the instances of a version share a session.
	paramShare = "share_session"
)

// entryPrefixes are the names of session configuration entries that a model
// parameter may set.
var entryPrefixes = []string{"session.", "optimization.", "mlas.", "ep."}

// parameters are all that a model may have.
func parameters() []string {
	all := []string{
		paramIntraThreads, paramInterThreads, paramExecutionMode, paramMemArena, paramMemPattern, paramShrink, paramShare,
		Spec.Parameter,
	}
	for _, prefix := range entryPrefixes {
		all = append(all, prefix+"*")
	}
	return append(all, cudaParameters...)
}

// wildcards are those of parameters that stand for many.
func wildcards() []string {
	return slices.DeleteFunc(parameters(), func(name string) bool { return !strings.HasSuffix(name, "*") })
}

// ownCode is backend.Driver.OwnCode.
func ownCode(cfg *backend.Config) string {
	if c, err := parseConfig(cfg); err == nil && len(c.ModelOperations.OpLibraryFilename) > 0 {
		return "model_operations.op_library_filename"
	}
	return Spec.OfModel(cfg)
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	var d driver
	_, err := d.readOptions(&backend.Config{Name: cfg.Name, Parameters: map[string]string{name: cfg.Parameters[name]}}, &modelConfig{},
		backend.InstanceConfig{})
	return err
}

// sessionOptions are what a session is made with.
type sessionOptions struct {
	level                int
	parallel             bool
	intra, inter         int   // 0: the library's choice
	memArena, memPattern *bool // nil: the library's choice
	entries              [][2]string
	accelerators         []accelerator // in order of preference
	kind                 string        // of the instances, for example "KIND_CPU"
	device               int
	operators            []string // libraries with operators
	perInstance          bool     // instances have a session each
	shrink               string   // run configuration entry
	cudaParameters       map[string]string
	affinity             *processors.Affinity // nil for anywhere
	policy               string               // what affinity was made of
}

// readOptions takes the options out of a configuration. instances are those of
// the version.
func (d *driver) readOptions(cfg *backend.Config, c *modelConfig, in backend.InstanceConfig) (*sessionOptions, error) {
	o := &sessionOptions{level: optimizeAll, kind: in.Kind, device: in.Device, shrink: cfg.Parameters[paramShrink]}
	if in.HostPolicy != nil {
		o.affinity, o.policy = processors.NewAffinity(in.HostPolicy.Processors, in.HostPolicy.Node), policyOf(in)
	}
	if g := c.Optimization.Graph; g != nil {
		switch g.Level {
		case -1:
			o.level = optimizeBasic
		case 1:
			o.level = optimizeExtended
		case 2:
			o.level = optimizeNothing
		}
	}
	mode := 0
	integer := func(name string, into *int) error {
		text, ok := cfg.Parameters[name]
		if !ok {
			return nil
		}
		n, err := parseInt(text)
		if err == nil && n < 0 {
			err = fmt.Errorf("expected 0 or more, got %d", n)
		}
		if err != nil {
			return backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s': %v", name, cfg.Name, err)
		}
		*into = n
		return nil
	}
	boolean := func(name string, into **bool) error {
		text, ok := cfg.Parameters[name]
		if !ok {
			return nil
		}
		v, err := parseBool(text)
		if err != nil {
			return backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s': %v", name, cfg.Name, err)
		}
		*into = &v
		return nil
	}
	var share *bool
	var wrong faults.List
	for _, err := range []error{
		integer(paramExecutionMode, &mode), integer(paramIntraThreads, &o.intra), integer(paramInterThreads, &o.inter),
		boolean(paramMemArena, &o.memArena), boolean(paramMemPattern, &o.memPattern), boolean(paramShare, &share),
	} {
		wrong.Add(err)
	}
	if mode > 1 {
		// Triton's text has two blanks and a blank before the stop.
		wrong.Add(backend.Errorf(backend.InvalidArg,
			"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got %d .", mode))
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	o.parallel = mode == 1
	o.accelerators = c.Optimization.ExecutionAccelerators.CPU
	if o.kind == kindGPU {
		o.accelerators = append(slices.Clone(c.Optimization.ExecutionAccelerators.GPU), o.accelerators...)
		o.cudaParameters = cfg.Parameters
	}
	o.perInstance = o.kind == kindGPU || len(o.accelerators) > 0
	if share != nil {
		o.perInstance = !*share
	}
	o.threads(cfg, &d.settings)
	o.addEntries(cfg.Parameters)
	for _, name := range c.ModelOperations.OpLibraryFilename {
		o.operators = append(o.operators, operatorLibrary(cfg, name))
	}
	return o, nil
}

const kindGPU = "KIND_GPU"

// policyOf describes where an instance is to run: those of the same share a
// session.
func policyOf(in backend.InstanceConfig) string {
	p := in.HostPolicy
	switch {
	case p == nil:
		return ""
	case p.Node == nil:
		return fmt.Sprint(p.Processors)
	default:
		return fmt.Sprint(p.Processors, *p.Node)
	}
}

// threads divides the cores. The instances that share a session also share its
// threads: each brings the thread it runs on, the pool has the cores that are
// left, and an instance that runs alone has them all. Instances with sessions of
// their own get an equal part each.
func (o *sessionOptions) threads(cfg *backend.Config, s *settings) {
	if o.intra == 0 && s.intra > 0 && !s.sharedThreads {
		o.intra = s.intra
	}
	if o.inter == 0 && s.inter > 0 && !s.sharedThreads {
		o.inter = s.inter
	}
	if o.intra > 0 {
		return
	}
	cores, instances := processors.Count(), 0
	for _, in := range cfg.Instances {
		if in.Kind != o.kind || in.Device != o.device || policyOf(in) != o.policy {
			continue
		}
		if instances++; in.HostPolicy != nil && len(in.HostPolicy.Processors) > 0 {
			cores = min(cores, len(in.HostPolicy.Processors))
		}
	}
	instances = max(1, instances)
	if o.perInstance {
		o.intra = max(1, cores/instances)
	} else {
		o.intra = max(1, cores-instances+1)
	}
}

// addEntries takes over session configuration entries. Waiting threads sleep
// unless the model says otherwise: spinning, ONNX Runtime's own choice, makes
// the steps of one large model follow each other a little faster and costs
// everything else on the machine its cores.
func (o *sessionOptions) addEntries(parameters map[string]string) {
	entries := map[string]string{
		"session.intra_op.allow_spinning": "0",
		"session.inter_op.allow_spinning": "0",
	}
	for name, value := range parameters {
		for _, prefix := range entryPrefixes {
			if strings.HasPrefix(name, prefix) {
				entries[name] = value
			}
		}
	}
	for name, value := range entries {
		o.entries = append(o.entries, [2]string{name, value})
	}
	slices.SortFunc(o.entries, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
}

// key tells options apart: a session made with the same can be used in place of
// another.
func (o *sessionOptions) key() string {
	c := *o
	c.memArena, c.memPattern, c.affinity = nil, nil, nil
	return fmt.Sprintf("%+v %s %s", c, show(o.memArena), show(o.memPattern))
}

func show(b *bool) string {
	if b == nil {
		return "default"
	}
	return fmt.Sprint(*b)
}

// build makes the options' C object, which the caller releases.
func (e *environment) build(o *sessionOptions, cfg *backend.Config) (options uintptr, err error) {
	if err := e.call(fnCreateSessionOptions, uintptr(unsafe.Pointer(&options))); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			e.release(fnReleaseSessionOptions, options)
		}
	}()
	id := library.CString(cfg.Name)
	mode := uintptr(0)
	if o.parallel {
		mode = 1
	}
	steps := []func() error{
		func() error { return e.call(fnSetSessionLogID, options, uintptr(unsafe.Pointer(id))) },
		func() error { return e.call(fnSetSessionGraphOptimizationLevel, options, uintptr(o.level)) },
		func() error { return e.call(fnSetSessionExecutionMode, options, mode) },
		func() error { return e.buildThreads(options, o) },
		func() error { return e.toggle(options, o.memArena, fnEnableCPUMemArena, fnDisableCPUMemArena) },
		func() error { return e.toggle(options, o.memPattern, fnEnableMemPattern, fnDisableMemPattern) },
		func() error { return e.buildEntries(options, o) },
		func() error { return e.appendProviders(options, o, cfg) },
		func() error { return e.registerOperators(options, o, cfg) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return options, nil
}

func (e *environment) buildThreads(options uintptr, o *sessionOptions) error {
	if e.shared {
		return e.call(fnDisablePerSessionThreads, options)
	}
	if err := e.call(fnSetIntraOpNumThreads, options, uintptr(o.intra)); err != nil || o.inter == 0 {
		return err
	}
	return e.call(fnSetInterOpNumThreads, options, uintptr(o.inter))
}

func (e *environment) toggle(options uintptr, value *bool, on, off int) error {
	switch {
	case value == nil:
		return nil
	case *value:
		return e.call(on, options)
	default:
		return e.call(off, options)
	}
}

func (e *environment) buildEntries(options uintptr, o *sessionOptions) error {
	for _, entry := range o.entries {
		name, value := library.CString(entry[0]), library.CString(entry[1])
		if err := e.call(fnAddSessionConfigEntry, options, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(value))); err != nil {
			return backend.Errorf(backend.InvalidArg, "parameter '%s': %v", entry[0], err)
		}
	}
	return nil
}
