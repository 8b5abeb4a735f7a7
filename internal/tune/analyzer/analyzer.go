// Package analyzer owns the YAML files of NVIDIA's Model Analyzer: what of them has a meaning
// here, what has none, and what is no key at all. Open analyzer.go first, then keys.go.
package analyzer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nesoserve/neso/internal/spelling"
	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// File is what a file says. What it does not say has Model Analyzer's defaults.
type File struct {
	Repository string
	Models     []Model
	Composing  []string // of BLS
	Together   bool
	// Mode is brute, quick or halving; Disabled that nothing is searched but what the
	// models say.
	Mode     string
	Disabled bool
	Trials   int // the most of halving; 0 is not said

	Concurrency, Instances, Batch, Rate Bounds
	SearchRate                          bool

	Checkpoint, Export     string
	Inference, GPU, Server string // names of files
	Fields                 []string
	Timeout                int // of the generator, in seconds
	Protocol               string

	// Notes are keys that mean nothing here, said once.
	Notes []string

	global settings
	short  []limited
	path   string
	depth  int
}

// Bounds are those of a search.
type Bounds struct{ Min, Max int }

// Model is one of profile_models, with what the file says of all models.
type Model struct {
	Name string
	settings
	Weight float64
	// Vary are fields of its configuration with their values.
	Vary []knobs.Field
}

// settings may stand for all models, and for one.
type settings struct {
	Objectives                    map[trial.Metric]float64
	Limits                        map[trial.Metric]trial.Limit
	Batches, Concurrencies, Rates []int
	Perf                          []Flag
	Flags                         []Flag // of the server
	Environment                   []Flag
}

// Flag is an option, or a variable, with its value.
type Flag struct{ Name, Value string }

// fault is one of the file, with its line.
type fault struct {
	path string
	line int
	text string
}

func (f *fault) Error() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// mostBytes bounds a file.
const mostBytes = 4 << 20

// Read reads a file.
func Read(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	if err == nil && len(text) > mostBytes {
		err = fmt.Errorf("%s: more than %d bytes", path, mostBytes)
	}
	if err != nil {
		return nil, err
	}
	return Parse(text, filepath.Base(path))
}

// Parse reads the text of a file, whose name stands in faults.
func Parse(text []byte, path string) (*File, error) {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{
		path: path, Mode: "brute", Protocol: "grpc", Timeout: 600,
		Concurrency: Bounds{1, 1024}, Instances: Bounds{1, 5}, Batch: Bounds{1, 128}, Rate: Bounds{16, 8192},
	}
	f.global.Limits = map[trial.Metric]trial.Limit{}
	if len(document.Content) == 0 {
		return nil, &fault{path, 1, "expected keys such as model_repository and profile_models, found nothing"}
	}
	root := document.Content[0]
	if err := f.merge(root, map[*yaml.Node]bool{}); err != nil {
		return nil, err
	}
	// What stands for all models has to be known before them.
	var models *yaml.Node
	err := f.each(root, func(key, value *yaml.Node) error {
		if key.Value == "profile_models" {
			models = value
			return nil
		}
		return f.key(key, value)
	})
	if err != nil {
		return nil, err
	}
	if err == nil {
		err = f.bounds()
	}
	if err == nil && models != nil {
		err = f.models(models)
	}
	return f, err
}

// bounds refuses searches that have no place to be in.
func (f *File) bounds() error {
	for _, b := range []struct {
		name string
		Bounds
	}{{"concurrency", f.Concurrency}, {"instance_count", f.Instances}, {"model_batch_size", f.Batch}, {"request_rate", f.Rate}} {
		if b.Min > b.Max {
			return fmt.Errorf("%s: run_config_search_min_%s is %d, and run_config_search_max_%[2]s %[4]d: expected no more than that", f.path,
				b.name, b.Min, b.Max)
		}
	}
	return nil
}

// merge puts what the merge keys (<<) of mappings stand for in their place, once in every
// mapping. The keys of a mapping itself win, then the mappings that are named first.
func (f *File) merge(n *yaml.Node, seen map[*yaml.Node]bool) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if seen[n] {
		return nil
	}
	seen[n] = true
	for _, inner := range n.Content {
		if err := f.merge(inner, seen); err != nil {
			return err
		}
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var own, others []*yaml.Node
	known := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != "!!merge" {
			known[key.Value] = true
			own = append(own, key, value)
			continue
		}
		if list := resolve(value); list.Kind == yaml.SequenceNode {
			others = append(others, list.Content...)
		} else {
			others = append(others, value)
		}
	}
	for _, other := range others {
		m := resolve(other)
		if m.Kind != yaml.MappingNode {
			return f.fault(other, "expected keys with values to merge, found %s", what(m))
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			if key := m.Content[i]; key.Tag != "!!merge" && !known[key.Value] {
				known[key.Value] = true
				own = append(own, key, m.Content[i+1])
			}
		}
	}
	n.Content = own
	return nil
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// deepest bounds what stands within what: an alias may stand within itself.
const deepest = 100

// each walks over the keys of a mapping, of which each stands there once.
func (f *File) each(n *yaml.Node, do func(key, value *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return f.fault(n, "expected keys with values, found %s", what(n))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if seen[key.Value] {
			return f.fault(key, "the key %q is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := do(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) fault(n *yaml.Node, format string, args ...any) error {
	return &fault{f.path, n.Line, fmt.Sprintf(format, args...)}
}

// what names a node in faults.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys with values"
	default:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return fmt.Sprintf("%q", n.Value)
	}
}

func (f *File) unknown(key *yaml.Node, known []string) error {
	text := fmt.Sprintf("there is no key %q", key.Value)
	if near := spelling.Nearest(key.Value, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return f.fault(key, "%s", text)
}

// note keeps what is said once of a key.
func (f *File) note(key *yaml.Node, why string) {
	f.Notes = append(f.Notes, fmt.Sprintf("%s:%d: %s has no effect: %s", f.path, key.Line, key.Value, why))
}

// decode reads a scalar, or a list of them.
func decode[T any](f *File, n *yaml.Node, to *T, expected string) error {
	if err := n.Decode(to); err != nil || n.Tag == "!!null" {
		return f.fault(n, "expected %s, found %s", expected, what(n))
	}
	return nil
}

func (f *File) text(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return f.fault(n, "expected a text, found %s", what(n))
	}
	*to = n.Value
	return nil
}

// names reads a list of texts, or one with commas.
func (f *File) names(n *yaml.Node, to *[]string) error {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		for name := range strings.SplitSeq(n.Value, ",") {
			*to = append(*to, strings.TrimSpace(name))
		}
		return nil
	}
	return decode(f, n, to, "a list of names")
}
