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
	// Inputs and Outputs are how many the file names.
	Inputs, Outputs int

	scheduled bool // by its own choice
	all       map[string]json.RawMessage
}

// Read reads the JSON form of a configuration.
func Read(cfg *backend.Config) (*Config, error) {
	var seen struct {
		MaxBatchSize       int               `json:"max_batch_size"`
		Input              []json.RawMessage `json:"input"`
		Output             []json.RawMessage `json:"output"`
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
	c.MaxBatchSize, c.Inputs, c.Outputs = seen.MaxBatchSize, len(seen.Input), len(seen.Output)
	c.scheduled = seen.DynamicBatching != nil || seen.SequenceBatching != nil || seen.EnsembleScheduling != nil
	return c, nil
}

// Batch sets the largest batch, and the dynamic batcher when that is more than
// one and the file has no scheduler.
func (c *Config) Batch(size int) {
	c.set("max_batch_size", size)
	if size > 1 && !c.scheduled {
		c.set("dynamic_batching", struct{}{})
	}
}

// SetInputs replaces the inputs.
func (c *Config) SetInputs(list []IO) { c.set("input", list) }

// SetOutputs replaces the outputs.
func (c *Config) SetOutputs(list []IO) { c.set("output", list) }

// set writes a value that JSON can hold: numbers and texts only come here.
func (c *Config) set(name string, v any) {
	if text, err := json.Marshal(v); err == nil {
		c.all[name] = text
	}
}

// JSON is the completed configuration.
func (c *Config) JSON() ([]byte, error) { return json.Marshal(c.all) }

// Number reads a whole number of --backend-config into a setting, when it is
// given.
func Number(backendName string, s backend.Settings, key string, into *int) error {
	text, ok := s.Values[key]
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return backend.Errorf(backend.InvalidArg, "--backend-config=%s,%s=%s: expected a whole number", backendName, key, text)
	}
	*into = int(n)
	return nil
}

// MaxBatchSize is the setting for the largest batch of models that can batch and
// do not say how much.
const MaxBatchSize = "default-max-batch-size"
