package openvino

import (
	"context"
	"fmt"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
)

// Complete implements backend.Backend: inputs, outputs, the largest batch and
// the default batcher.
func (d *driver) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	c, err := completion.Read(&cfg)
	if c == nil || err != nil {
		return nil, err
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
	list := func(ports []port) func() ([]completion.IO, error) {
		return func() ([]completion.IO, error) { return completeIO(&cfg, ports, batch > 0) }
	}
	return c.Complete(batch, list(r.inputs), list(r.outputs))
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

func completeIO(cfg *backend.Config, ports []port, batching bool) ([]completion.IO, error) {
	all := []completion.IO{}
	for i := range ports {
		p := &ports[i]
		switch {
		case p.datatype == tensor.Invalid:
			return nil, unsupported(cfg, p)
		case p.unranked:
			return nil, backend.Errorf(backend.InvalidArg, "unable to autofill for '%s': '%s' has an open number of dimensions (name the inputs "+
				"and outputs, with their dims, in the configuration)", cfg.Name, p.name)
		case batching && len(p.shape) == 0:
			return nil, backend.Errorf(backend.InvalidArg,
				"unable to autofill for '%s': '%s' has no dimension for the batch (write max_batch_size: 0)", cfg.Name, p.name)
		}
		all = append(all, completion.NewIO(p.name, p.datatype, p.shape, batching))
	}
	return all, nil
}

func unsupported(cfg *backend.Config, p *port) error {
	name := elementNames[p.element]
	if name == "string" {
		return backend.Errorf(backend.Unsupported, "unsupported datatype of '%s' for model '%s': OpenVINO's C library gives no access to "+
			"strings (put a tokenizer in front of the model with an ensemble, or serve an ONNX file of it with the backend onnxruntime)",
			p.name, cfg.Name)
	}
	if name == "" {
		name = fmt.Sprintf("number %d", p.element)
	}
	return backend.Errorf(backend.Unsupported, "unsupported datatype of '%s' for model '%s': OpenVINO's element type %s, which the protocol "+
		"does not have (convert it in the model, for example with a PrePostProcessor)",
		p.name, cfg.Name, name)
}

// elementNames are the types that the protocol does not have, by their places in
// the library's list, from BOOLEAN at 1 on.
var elementNames = map[int32]string{
	6: "i4", 11: "u1", 12: "u2", 13: "u3", 14: "u4", 15: "u6", 20: "nf4", 21: "f8e4m3", 22: "f8e5m2", 23: "string", 24: "f4e2m1", 25: "f8e8m0",
}
