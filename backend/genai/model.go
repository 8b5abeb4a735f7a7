package genai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/genai/step"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/tensor"
)

// network is a model and its tokenizer as the library has loaded them.
type network struct {
	*api
	settings *settings
	model    uintptr
	// mu is of the tokenizer and its streams, which know nothing of threads.
	mu        sync.Mutex
	tokenizer uintptr
	template  *template
	adapters  uintptr
	names     []string // of the adapters
	perToken  int64    // bytes of keys and values
}

// model is one loaded version.
type model struct {
	driver    *driver
	cfg       backend.Config
	network   *network
	admission *admission
	computing chan struct{} // has room for as many generators as compute at once
	// Who computes the texts: the library's engine, or ours; with neither each has a generator.
	engine   *engine
	together *together
	gauge    *gauge
	closing  sync.Once

	beams beamsCopy
}

// Load implements backend.Backend. One network serves all instances.
func (d *driver) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if !cfg.Decoupled || cfg.MaxBatchSize > 0 {
		return nil, backend.Errorf(backend.InvalidArg, "model '%s' of the backend genai needs model_transaction_policy { decoupled: true } and "+
			"no max_batch_size: leave inputs and outputs out, and they are completed", cfg.Name)
	}
	if err := checkTensors(&cfg); err != nil {
		return nil, err
	}
	l, err := parseLimits(&cfg)
	if err != nil {
		return nil, err
	}
	s, _, err := readSettings(&cfg)
	if err != nil {
		return nil, err
	}
	a, err := d.library(&cfg)
	if err != nil {
		return nil, err
	}
	n := &network{api: a, settings: s}
	st, why := d.stepper(&cfg, n, l)
	if st != nil {
		n.perToken = st.PerToken()
		err = n.loadWords(&cfg)
	} else {
		err = n.load(&cfg)
	}
	if err == nil {
		err = n.tryTemplate()
	}
	if err != nil {
		if st != nil {
			st.Close()
		}
		n.close()
		return nil, backend.Errorf(backend.InvalidArg, "unable to load model '%s': %v", cfg.Name, err)
	}
	if why != nil {
		d.host.Logger().Info("texts of the model are computed one by one", "model", cfg.Name, "version", cfg.Version, "reason", why.Error())
	}
	return d.newModel(&cfg, n, st, l)
}

// stepper loads the network to be run here, where it is of a kind that computes several texts at
// once; else it says why it is not.
func (d *driver) stepper(cfg *backend.Config, n *network, l limits) (st *step.Network, why error) {
	switch {
	case n.settings.Engine.Dynamic != nil:
		return nil, nil // the library's engine does that
	case l.alone:
		return nil, fmt.Errorf("parameter '%s' says so", paramTogether)
	case !n.hasEngine:
		return nil, errors.New("the library is too old for it")
	}
	if why := n.settings.alone(); why != nil {
		return nil, why
	}
	if found, err := adapterFiles(cfg); err != nil || len(found) > 0 {
		return nil, errors.New("it has adapters")
	}
	log := d.host.Logger()
	places := onnxruntime.Spec.LocationsFor(nil, d.server, d.options.Interpreter) // as openRuntime has it
	r, err := d.runtimes.Get(&onnxruntime.Spec, places, func(lib *library.Library) (*onnxruntime.Runtime, error) {
		return onnxruntime.OpenRuntime(lib, log)
	})
	if err != nil {
		return nil, err
	}
	st, why, err = n.settings.openStep(r, cfg)
	if err != nil {
		why = hidden(cfg, err) // the library says what it makes of it
	}
	return st, why
}

// newModel takes the network over.
func (d *driver) newModel(cfg *backend.Config, n *network, st *step.Network, l limits) (*model, error) {
	m := &model{driver: d, cfg: *cfg, network: n, computing: make(chan struct{}, l.threads)}
	if e := n.settings.Engine.Dynamic; e != nil {
		var err error
		if m.engine, err = newEngine(n); err != nil {
			n.close()
			return nil, backend.Errorf(backend.InvalidArg, "unable to load model '%s': its engine: %v", cfg.Name, hidden(cfg, err))
		}
		if _, said := cfg.Parameters[paramSequences]; !said && e.MaxBatchSize > 0 {
			l.sequences = min(e.MaxBatchSize, mostSequences)
		}
		l.cache = math.MaxInt64 // the engine knows how much of the device's memory it has
		if e.Blocks > 0 {
			l.cache = int64(e.Blocks) * int64(e.BlockSize) * n.perToken
		}
	}
	m.gauge = m.newGauge(l.cache)
	m.beams.load, m.beams.free = m.loadForBeams, m.freeForBeams
	m.admission = newAdmission(cfg.Name, l, n.perToken, m.gauge.set)
	if st != nil {
		m.together = newTogether(n, st, l)
	}
	return m, nil
}

// checkTensors compares the tensors of a configuration with those that the backend has.
func checkTensors(cfg *backend.Config) error {
	for _, side := range []struct {
		what  string
		given []backend.IO
		known []string
	}{
		{"input", cfg.Inputs, []string{inText, inMessages, inTools, inSampling, inStream}},
		{"output", cfg.Outputs, []string{outText, outFinish, outLogprobs, outPrompt, outTokens}},
	} {
		for _, io := range side.given {
			if !slices.Contains(side.known, io.Name) {
				return backend.Errorf(backend.InvalidArg, "model '%s' has no %s '%s', expected some of %s", cfg.Name, side.what, cut(io.Name, 60),
					strings.Join(side.known, ", "))
			}
		}
	}
	return nil
}

// load makes the library's objects. What it has made is in n when it fails.
func (n *network) load(cfg *backend.Config) error {
	config, err := n.make(fnCreateConfig, uintptr(unsafe.Pointer(library.CString(cfg.VersionDirectory))))
	if err != nil {
		return hidden(cfg, err)
	}
	defer n.free(fnDestroyConfig, config)
	if err := n.create(cfg, config); err != nil {
		return err
	}
	if err := n.loadAdapters(cfg); err != nil {
		return err
	}
	n.perToken = n.keysAndValues(4)
	if n.settings.Engine.Dynamic != nil {
		if !n.hasEngine {
			return errors.New("it was exported for the library's engine, which this release of the library does not have: " +
				"'pip install --upgrade onnxruntime-genai'")
		}
		return nil
	}
	return n.measure(cfg)
}

// create makes the model and its tokenizer.
func (n *network) create(cfg *backend.Config, config uintptr) (err error) {
	if n.model, err = n.make(fnCreateModelFromConfig, config); err != nil {
		return hidden(cfg, err)
	}
	if n.tokenizer, err = n.make(fnCreateTokenizer, n.model); err != nil {
		return fmt.Errorf("its tokenizer: %w", hidden(cfg, err))
	}
	n.template = newTemplate(n.applyTemplate)
	return nil
}

// tryTemplate fills a chat in, so that a template that does not end is told at once. One that there
// is not, or that does not take this chat, is no fault.
func (n *network) tryTemplate() error {
	_, err := n.template.fill(`[{"role": "user", "content": "x"}]`, "")
	if _, late := errors.AsType[*backend.Error](err); late {
		return err
	}
	return nil
}

// adapterEnding is that of the files of adapters.
const adapterEnding = ".onnx_adapter"

// adapterFiles are the adapters of a version, by their names.
func adapterFiles(cfg *backend.Config) (names []string, err error) {
	entries, err := os.ReadDir(cfg.VersionDirectory)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), adapterEnding); ok && name != "" && !e.IsDir() {
			names = append(names, name)
		}
	}
	return names, err
}

// loadAdapters loads the files of adapters.
func (n *network) loadAdapters(cfg *backend.Config) error {
	names, err := adapterFiles(cfg)
	if err != nil {
		return hidden(cfg, err)
	}
	for _, name := range names {
		if n.adapters == 0 {
			if n.adapters, err = n.make(fnCreateAdapters, n.model); err != nil {
				return fmt.Errorf("its adapters: %w", err)
			}
		}
		file := name + adapterEnding
		err := n.call(fnLoadAdapter, n.adapters, uintptr(unsafe.Pointer(library.CString(filepath.Join(cfg.VersionDirectory, file)))),
			uintptr(unsafe.Pointer(library.CString(name))))
		if err != nil {
			return fmt.Errorf("its adapter '%s': %w", cut(file, 100), hidden(cfg, err))
		}
		n.names = append(n.names, name)
	}
	return nil
}

// measure writes two tokens, so that a network that does not run, or not with what is in its cache,
// is told at once, and asks how large its keys are.
func (n *network) measure(cfg *backend.Config) error {
	first := int32(0)
	if len(n.settings.Model.EndOfText) > 0 {
		first = n.settings.Model.EndOfText[0]
	}
	count := max(1, min(2, n.settings.context()-1))
	g, err := n.newGenerator(&options{maxTokens: count, minTokens: count}, []int32{first})
	if err != nil {
		return fmt.Errorf("its first tokens: %w", hidden(cfg, err))
	}
	defer g.close()
	for range count {
		if _, err := g.next(0); err != nil {
			return fmt.Errorf("its first tokens: %w", hidden(cfg, err))
		}
	}
	if size := g.elementSize(n.settings.keyName()); size > 0 {
		n.perToken = n.keysAndValues(size)
	}
	return nil
}

// keysAndValues is how many bytes a token has of them, with elements of a size.
func (n *network) keysAndValues(size int) int64 {
	d := &n.settings.Model.Decoder
	return max(1, 2*int64(d.Layers)*int64(d.KeyValueHeads)*int64(d.HeadSize)*int64(size))
}

// hidden leaves the path of the model out of an error.
func hidden(cfg *backend.Config, err error) error {
	text := strings.ReplaceAll(err.Error(), cfg.VersionDirectory+string(os.PathSeparator), "")
	return errors.New(strings.ReplaceAll(text, cfg.VersionDirectory, "its directory"))
}

func (n *network) close() {
	if n.template != nil && !n.template.ended() {
		return // it is still using them: they end with the process
	}
	n.free(fnDestroyAdapters, n.adapters)
	n.free(fnDestroyTokenizer, n.tokenizer)
	n.free(fnDestroyModel, n.model)
	n.adapters, n.tokenizer, n.model = 0, 0, 0
}

// Allocator implements backend.Model: ordinary memory is as good as any.
func (m *model) Allocator() tensor.Allocator { return nil }

// Ready implements backend.Model.
func (m *model) Ready() error {
	if m.engine == nil {
		return nil
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	return m.engine.err
}

// NewInstance implements backend.Model.
func (m *model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return newInstance(m)
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.closing.Do(func() {
		if m.engine != nil {
			m.engine.close()
		}
		if m.together != nil {
			m.together.close()
		}
		m.beams.close()
		m.network.close()
		m.gauge.close()
	})
	return nil
}

// quoted is a text as JSON.
func quoted(s string) []byte {
	text, _ := json.Marshal(s) // a string is always one
	return text
}
