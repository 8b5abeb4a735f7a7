package neso

import (
	"context"
	"encoding/json"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Model describes a model that a program binds to a function.
type Model struct {
	Name string
	// Version defaults to 1.
	Version         int64
	Inputs, Outputs []backend.IO
	// MaxBatchSize above zero gives the tensors a batch dimension, and the function
	// gathered batches of up to that size.
	MaxBatchSize int
	// Instances is how often the function runs at once; default 1.
	Instances int
	// Config holds more of the model configuration, as JSON: for example
	// {"dynamic_batching": {"max_queue_delay_microseconds": 100}}.
	Config json.RawMessage
}

// Func is a model in Go. It gets the inputs of a request, or of a whole batch,
// concatenated along the first dimension, and returns the outputs in the same
// form. The inputs are borrowed until it returns. What it returns is handed on
// without a copy and must not be changed any more.
//
// ctx is the request's: it ends when the caller has given up, at the request's
// deadline, and when the server stops waiting; it has the values of the context
// of Server.Infer. That of a batch of several requests ends when all of them have
// ended, and has no values. Either ends when the function returns.
type Func func(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error)

// earlyBind is a Bind before Start.
type earlyBind struct {
	model    Model
	function Func
}

// Bind serves a function as a model. Before Start it takes effect with Start,
// afterwards at once; binding a version again swaps it in without downtime. It
// must not run at the same time as Start.
func (s *Server) Bind(m Model, f Func) error {
	if f == nil {
		return backend.Errorf(backend.InvalidArg, "model '%s' is bound to no function", m.Name)
	}
	if s.running == nil {
		s.early = append(s.early, earlyBind{m, f})
		return nil
	}
	return s.bindFunc(context.Background(), m, f)
}

// Unbind takes a bound version out of service; 0 means version 1.
func (s *Server) Unbind(name string, version int64) error {
	return s.UnbindBackend(context.Background(), name, max(1, version), nil)
}

func (s *Server) bindFunc(ctx context.Context, m Model, f Func) error {
	config, err := m.config()
	if err != nil {
		return err
	}
	_, err = s.BindBackend(ctx, m.Name, max(1, m.Version), config, &funcBackend{f: f, gather: m.MaxBatchSize > 0, count: m.Instances})
	return err
}

// config writes the model configuration.
func (m *Model) config() ([]byte, error) {
	all := map[string]any{}
	if len(m.Config) > 0 {
		if err := json.Unmarshal(m.Config, &all); err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "configuration of model '%s': %v", m.Name, err)
		}
	}
	list := func(tensors []backend.IO) []map[string]any {
		made := []map[string]any{}
		for _, t := range tensors {
			io := map[string]any{"name": t.Name, "data_type": t.Datatype.ConfigName(), "dims": append([]int64{}, t.Dims...)}
			if t.Optional {
				io["optional"] = true
			}
			if t.Ragged {
				io["allow_ragged_batch"] = true
			}
			made = append(made, io)
		}
		return made
	}
	all["name"], all["backend"] = m.Name, "go"
	all["max_batch_size"], all["input"], all["output"] = m.MaxBatchSize, list(m.Inputs), list(m.Outputs)
	if _, ok := all["dynamic_batching"]; !ok && m.MaxBatchSize > 1 && all["sequence_batching"] == nil {
		all["dynamic_batching"] = struct{}{}
	}
	return json.Marshal(all)
}

// funcBackend runs one function.
type funcBackend struct {
	f      Func
	gather bool
	count  int
}

func (b *funcBackend) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: b.gather, Kind: "KIND_CPU", Count: b.count, StrictOutputs: true}
}

func (b *funcBackend) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (b *funcBackend) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if cfg.Decoupled {
		return nil, backend.Errorf(backend.Unsupported, "model '%s' is bound to a function, which answers once: it cannot be decoupled", cfg.Name)
	}
	return funcModel{b, cfg.MaxBatchSize > 0}, nil
}

func (b *funcBackend) Close() error { return nil }

type funcModel struct {
	b        *funcBackend
	batching bool
}

func (m funcModel) Allocator() tensor.Allocator { return nil }
func (m funcModel) Ready() error                { return nil }
func (m funcModel) Close() error                { return nil }

func (m funcModel) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return m, nil
}

func (m funcModel) Execute(ctx context.Context, batch *backend.Batch) error {
	if m.b.gather && m.batching {
		outputs, err := m.call(ctx, batch.Requests, batch.Inputs)
		if err != nil {
			return err
		}
		batch.OutputStart = backend.Now()
		keep(outputs, batch.Inputs)
		return batch.Scatter(outputs)
	}
	for i, r := range batch.Requests {
		outputs, err := m.call(ctx, batch.Requests[i:i+1:i+1], r.Inputs)
		resp := &backend.Response{Err: backend.AsError(err)}
		if err == nil {
			keep(outputs, r.Inputs)
			for i := range outputs {
				if r.Wants(outputs[i].Name) {
					resp.Outputs = append(resp.Outputs, outputs[i])
				} else {
					outputs[i].Release()
				}
			}
		}
		_ = r.Respond(resp, true) // a cancelled request needs nothing more
	}
	return nil
}

// call runs the function for some requests.
func (m funcModel) call(ctx context.Context, requests []*backend.Request, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	c := &callContext{life: ctx, requests: requests}
	defer c.close()
	return m.b.f(c, inputs)
}

// keep takes a reference for each output that is memory of an input.
func keep(outputs, inputs []tensor.Tensor) {
	for i := range outputs {
		for k := range inputs {
			if b := outputs[i].Buffer; b != nil && b == inputs[k].Buffer {
				outputs[i].Retain()
				break
			}
		}
	}
}
