// Package target owns what the load generator asks a server beside inference: what
// a model takes and gives, its statistics, regions of shared memory, settings of
// traces; over HTTP, gRPC, or within the process. Open target.go first.
package target

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

// API is how a server is asked. The texts are JSON as of the protocol's HTTP form;
// numbers may be in quotation marks.
type API interface {
	Server(ctx context.Context) ([]byte, error)
	Metadata(ctx context.Context, model, version string) ([]byte, error)
	Config(ctx context.Context, model, version string) ([]byte, error)
	// Statistics of all models for model "".
	Statistics(ctx context.Context, model, version string) ([]byte, error)
	Register(ctx context.Context, name, key string, size int64) error
	Unregister(ctx context.Context, name string) error
	Trace(ctx context.Context, model string, settings map[string][]string) error
	Close() error
}

// Model is what must be known of a model to send it requests.
type Model struct {
	Name, Version   string // the version is as asked for, "" if none was
	Inputs, Outputs []data.Input
	MaxBatch        int
	Sequence        bool
	Decoupled       bool
	Cache           bool
	Ensemble        bool
	Composing       []string // of an ensemble, the ensembles in it included
	Nested          []string // those of Composing that are ensembles
	Statistics      bool     // the server has them
	Binary          bool     // the server takes tensors as bytes behind JSON, and gives them so
}

type metadata struct {
	Name    string
	Inputs  []tensorMetadata
	Outputs []tensorMetadata
}

type tensorMetadata struct {
	Name     string
	Datatype string
	Shape    []number
}

type config struct {
	MaxBatch number `json:"max_batch_size"`
	Input    []struct {
		Name     string
		Optional bool
	}
	Sequence   json.RawMessage          `json:"sequence_batching"`
	Cache      struct{ Enable bool }    `json:"response_cache"`
	Policy     struct{ Decoupled bool } `json:"model_transaction_policy"`
	Scheduling *struct {
		Step []struct {
			Model string `json:"model_name"`
		}
	} `json:"ensemble_scheduling"`
}

// number is a whole number that may be in quotation marks.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	var v json.Number
	if err := json.Unmarshal([]byte(strings.Trim(string(b), `"`)), &v); err != nil {
		return err
	}
	i, err := v.Int64()
	*n = number(i)
	return err
}

// Describe asks for all there is to know of a model.
func Describe(ctx context.Context, api API, name, version string) (*Model, error) {
	text, err := api.Metadata(ctx, name, version)
	if err != nil {
		return nil, fmt.Errorf("failed to get model metadata: %w", err)
	}
	var m metadata
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("failed to get model metadata: %w", err)
	}
	extensions := extensionsOf(ctx, api)
	c, err := readConfig(ctx, api, name, version)
	if err != nil && slices.Contains(extensions, "model_configuration") {
		return nil, err
	}
	if err != nil { // a server of the plain protocol: shapes have the batch in them, if there is one
		c = &config{}
	}
	model := &Model{
		Name: name, Version: version, MaxBatch: int(c.MaxBatch), Sequence: len(c.Sequence) > 0 && string(c.Sequence) != "null",
		Decoupled: c.Policy.Decoupled, Cache: c.Cache.Enable, Ensemble: c.Scheduling != nil, Statistics: slices.Contains(extensions, "statistics"),
		Binary: slices.Contains(extensions, "binary_tensor_data"),
	}
	if model.Inputs, err = describe(m.Inputs, model.MaxBatch); err != nil {
		return nil, err
	}
	if model.Outputs, err = describe(m.Outputs, model.MaxBatch); err != nil {
		return nil, err
	}
	for _, in := range c.Input {
		if i := slices.IndexFunc(model.Inputs, func(d data.Input) bool { return d.Name == in.Name }); i >= 0 {
			model.Inputs[i].Optional = in.Optional
		}
	}
	return model, compose(ctx, api, c, model, 0)
}

// Known asks for the models in names, each a name or name:version, and says which one
// the server does not have.
func Known(ctx context.Context, api API, names []string) error {
	for _, n := range names {
		name, version, _ := strings.Cut(n, ":")
		if _, err := readConfig(ctx, api, name, version); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

func readConfig(ctx context.Context, api API, name, version string) (*config, error) {
	text, err := api.Config(ctx, name, version)
	if err != nil {
		return nil, fmt.Errorf("failed to get model config: %w", err)
	}
	c := &config{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("failed to get model config: %w", err)
	}
	return c, nil
}

// deepest bounds ensembles within ensembles.
const deepest = 16

// compose adds the models that an ensemble is made of; it is for sequences if one of
// them is.
func compose(ctx context.Context, api API, c *config, model *Model, depth int) error {
	if c.Scheduling == nil || depth > deepest {
		return nil
	}
	for _, s := range c.Scheduling.Step {
		if slices.Contains(model.Composing, s.Model) {
			continue
		}
		model.Composing = append(model.Composing, s.Model)
		inner, err := readConfig(ctx, api, s.Model, "")
		if err != nil {
			return err
		}
		if len(inner.Sequence) > 0 && string(inner.Sequence) != "null" {
			model.Sequence = true
		}
		model.Cache = model.Cache || inner.Cache.Enable
		if inner.Scheduling != nil {
			model.Nested = append(model.Nested, s.Model)
		}
		if err := compose(ctx, api, inner, model, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func describe(list []tensorMetadata, maxBatch int) ([]data.Input, error) {
	var all []data.Input
	for _, t := range list {
		d := tensor.LookupDatatype(t.Datatype)
		if d == tensor.Invalid {
			return nil, fmt.Errorf("the tensor '%s' has the datatype '%s', which is not known here", t.Name, t.Datatype)
		}
		shape := make(tensor.Shape, len(t.Shape))
		for i, n := range t.Shape {
			shape[i] = int64(n)
		}
		if maxBatch > 0 && len(shape) > 0 {
			shape = shape[1:]
		}
		all = append(all, data.Input{Name: t.Name, Datatype: d, Shape: shape})
	}
	return all, nil
}

// extensionsOf are the extensions of the protocol that a server says it has.
func extensionsOf(ctx context.Context, api API) []string {
	text, err := api.Server(ctx)
	var server struct{ Extensions []string }
	if err != nil || json.Unmarshal(text, &server) != nil {
		return nil
	}
	return server.Extensions
}
