package completion

import (
	"encoding/json"
	"strconv"

	"github.com/nesoserve/neso/backend"
)

// Config is a configuration that is being completed.
type Config struct {
	// MaxBatchSize is max_batch_size of the file; 0 when it says nothing.
	MaxBatchSize int

	inputs, outputs int  // that the file names
	scheduled       bool // by its own choice
	all             map[string]json.RawMessage
}

// Read reads the JSON form of a configuration. It returns nil when that names
// inputs and outputs: then nothing is left to say.
func Read(cfg *backend.Config) (*Config, error) {
	var seen struct {
		MaxBatchSize       int               `json:"max_batch_size"`
		Input              []json.RawMessage `json:"input"`
		Output             []json.RawMessage `json:"output"`
		BatchInput         []json.RawMessage `json:"batch_input"`
		DynamicBatching    json.RawMessage   `json:"dynamic_batching"`
		SequenceBatching   json.RawMessage   `json:"sequence_batching"`
		EnsembleScheduling json.RawMessage   `json:"ensemble_scheduling"`
	}
	c := &Config{all: map[string]json.RawMessage{}}
	for _, into := range []any{&seen, &c.all} {
		if err := json.Unmarshal(cfg.JSON, into); err != nil {
			return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", cfg.Name, err)
		}
	}
	c.MaxBatchSize, c.inputs, c.outputs = seen.MaxBatchSize, len(seen.Input)+len(seen.BatchInput), len(seen.Output)
	if c.inputs > 0 && c.outputs > 0 {
		return nil, nil
	}
	c.scheduled = seen.DynamicBatching != nil || seen.SequenceBatching != nil || seen.EnsembleScheduling != nil
	return c, nil
}

// Decoupled says that the model gives any number of responses.
func (c *Config) Decoupled() {
	c.set("model_transaction_policy", map[string]bool{"decoupled": true})
}

// Complete returns the whole configuration with the largest batch, the dynamic
// batcher when that is more than one and the file has no scheduler, and those of
// the inputs and outputs that the file leaves out.
func (c *Config) Complete(batch int, inputs, outputs func() ([]IO, error)) ([]byte, error) {
	c.set("max_batch_size", batch)
	if batch > 1 && !c.scheduled {
		c.set("dynamic_batching", struct{}{})
	}
	for _, side := range []struct {
		name  string
		given int
		list  func() ([]IO, error)
	}{{"input", c.inputs, inputs}, {"output", c.outputs, outputs}} {
		if side.given > 0 {
			continue
		}
		list, err := side.list()
		if err != nil {
			return nil, err
		}
		c.set(side.name, list)
	}
	return json.Marshal(c.all)
}

// set writes a value that JSON can hold: numbers and texts only come here.
func (c *Config) set(name string, v any) {
	if text, err := json.Marshal(v); err == nil {
		c.all[name] = text
	}
}

// Number reads a whole number of --backend-config into a setting, when it is
// given.
func Number(backendName string, s backend.Settings, key string, into *int) error {
	text, ok := s.Values[key]
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return backend.Errorf(backend.InvalidArg, s.Option("backend-config")+"=%s,%s=%s: expected a whole number", backendName, key, text)
	}
	*into = int(n)
	return nil
}

// MaxBatchSize is the setting for the largest batch of models that can batch and
// do not say how much.
const MaxBatchSize = "default-max-batch-size"
