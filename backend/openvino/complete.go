package openvino

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Complete implements backend.Backend: inputs, outputs, the largest batch and
// the default batcher.
func (d *driver) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	c := completion{}
	all := map[string]json.RawMessage{}
	for _, into := range []any{&c, &all} {
		if err := json.Unmarshal(cfg.JSON, into); err != nil {
			return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", cfg.Name, err)
		}
	}
	if len(c.Input) > 0 && len(c.Output) > 0 {
		return nil, nil // nothing is left to say
	}
	o, err := readOptions(&cfg)
	if err != nil {
		return nil, err
	}
	r, err := d.read(&cfg, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	batch := c.MaxBatchSize
	if batch == 0 && r.batches() {
		batch = d.settings.maxBatchSize
		d.host.Logger().Info("the model can batch and its configuration does not say how much", "model", cfg.Name, "max_batch_size", batch)
	}
	set := func(name string, v any) {
		if text, err := json.Marshal(v); err == nil {
			all[name] = text
		}
	}
	set("max_batch_size", batch)
	if batch > 1 && c.SequenceBatching == nil && c.DynamicBatching == nil && c.EnsembleScheduling == nil {
		set("dynamic_batching", struct{}{})
	}
	for _, side := range []struct {
		name  string
		given int
		ports []port
	}{{"input", len(c.Input), r.inputs}, {"output", len(c.Output), r.outputs}} {
		if side.given > 0 {
			continue
		}
		list, err := completeIO(&cfg, side.ports, batch > 0)
		if err != nil {
			return nil, err
		}
		set(side.name, list)
	}
	return json.Marshal(all)
}

// batches reports whether the first dimension of everything is open.
func (r *reading) batches() bool {
	for _, list := range [][]port{r.inputs, r.outputs} {
		for i := range list {
			if p := &list[i]; p.unranked || len(p.shape) == 0 || p.shape[0] != -1 {
				return false
			}
		}
	}
	return len(r.inputs) > 0
}

type reshape struct {
	Shape []int64 `json:"shape"`
}

// completedIO is one input or output of the JSON form.
type completedIO struct {
	Name     string   `json:"name"`
	DataType string   `json:"data_type"`
	Dims     []int64  `json:"dims"`
	Reshape  *reshape `json:"reshape,omitempty"`
}

func completeIO(cfg *backend.Config, ports []port, batching bool) ([]completedIO, error) {
	all := []completedIO{}
	for i := range ports {
		p := &ports[i]
		switch {
		case p.datatype == tensor.Invalid:
			return nil, unsupported(cfg, p)
		case p.unranked:
			return nil, backend.Errorf(backend.InvalidArg, "unable to autofill for '%s': '%s' has an open number of dimensions (name the inputs and outputs, with their dims, in the configuration)", cfg.Name, p.name)
		}
		io := completedIO{Name: p.name, DataType: p.datatype.ConfigName(), Dims: p.shape}
		if batching {
			if len(p.shape) == 0 {
				return nil, backend.Errorf(backend.InvalidArg, "unable to autofill for '%s': '%s' has no dimension for the batch (write max_batch_size: 0)", cfg.Name, p.name)
			}
			io.Dims = p.shape[1:]
		}
		if len(io.Dims) == 0 {
			io.Dims = []int64{1}
			if batching {
				io.Reshape = &reshape{Shape: []int64{}}
			}
		}
		all = append(all, io)
	}
	return all, nil
}

func unsupported(cfg *backend.Config, p *port) error {
	return backend.Errorf(backend.Unsupported, "unsupported datatype of '%s' for model '%s': OpenVINO's element type %s, which the protocol does not have (convert it in the model, for example with a PrePostProcessor)",
		p.name, cfg.Name, elementName(p.element))
}

// elementName names a datatype that the protocol does not have.
func elementName(element int32) string {
	return fmt.Sprintf("number %d (4 bits, 8-bit floats, strings)", element)
}
