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
	"github.com/nesoserve/neso/backend/internal/library"
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
	adapters  uintptr
	names     []string // of the adapters
	perToken  int64    // bytes of keys and values
}

// model is one loaded version.
type model struct {
	driver  *driver
	cfg     backend.Config
	network *network
	places  *places
	lanes   chan struct{} // has room for as many generators as compute at once
	engine  *engine       // nil for a model whose requests have generators
	gauge   *gauge
	closing sync.Once
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
	if err := n.load(&cfg); err != nil {
		n.close()
		return nil, backend.Errorf(backend.InvalidArg, "unable to load model '%s': %v", cfg.Name, err)
	}
	return d.newModel(&cfg, n, l)
}

// newModel takes the network over.
func (d *driver) newModel(cfg *backend.Config, n *network, l limits) (*model, error) {
	m := &model{driver: d, cfg: *cfg, network: n, lanes: make(chan struct{}, l.lanes)}
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
	m.places = newPlaces(cfg.Name, l, m.gauge.set)
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
	if n.model, err = n.make(fnCreateModelFromConfig, config); err != nil {
		return hidden(cfg, err)
	}
	if n.tokenizer, err = n.make(fnCreateTokenizer, n.model); err != nil {
		return fmt.Errorf("its tokenizer: %w", hidden(cfg, err))
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

// loadAdapters loads the files *.onnx_adapter, each under its name.
func (n *network) loadAdapters(cfg *backend.Config) error {
	const ending = ".onnx_adapter"
	entries, err := os.ReadDir(cfg.VersionDirectory)
	if err != nil {
		return hidden(cfg, err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ending)
		if !ok || name == "" || e.IsDir() {
			continue
		}
		if n.adapters == 0 {
			if n.adapters, err = n.make(fnCreateAdapters, n.model); err != nil {
				return fmt.Errorf("its adapters: %w", err)
			}
		}
		err := n.call(fnLoadAdapter, n.adapters, uintptr(unsafe.Pointer(library.CString(filepath.Join(cfg.VersionDirectory, e.Name())))),
			uintptr(unsafe.Pointer(library.CString(name))))
		if err != nil {
			return fmt.Errorf("its adapter '%s': %w", cut(e.Name(), 100), hidden(cfg, err))
		}
		n.names = append(n.names, name)
	}
	return nil
}

// measure writes one token, so that a network that does not run is told at once, and asks how
// large its keys are.
func (n *network) measure(cfg *backend.Config) error {
	first := int32(0)
	if len(n.settings.Model.EndOfText) > 0 {
		first = n.settings.Model.EndOfText[0]
	}
	g, err := n.newGenerator(&options{maxTokens: 1}, []int32{first})
	if err != nil {
		return fmt.Errorf("its first token: %w", hidden(cfg, err))
	}
	defer g.close()
	if _, _, err := g.next(nil); err != nil {
		return fmt.Errorf("its first token: %w", hidden(cfg, err))
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
