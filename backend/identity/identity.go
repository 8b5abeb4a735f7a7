// Package identity is a backend whose outputs are its inputs: the memory of
// the request goes back to the client without a copy.
//
// It follows the peer's backend of the same name. Outputs named OUTPUT<x> take
// the input INPUT<x>; any other names are paired in the configuration's order.
// For an optional input that a request does not have the output is zeros, of one
// element in each dimension that the configuration leaves open.
// Model parameters:
//
//	execute_delay_ms                how long an execution takes
//	instance_wise_delay_multiplier  the n-th instance (from 0) takes that many
//	                                times n as long, at least once
//	creation_delay_sec              how long creating an instance takes
package identity

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

const (
	paramDelay      = "execute_delay_ms"
	paramMultiplier = "instance_wise_delay_multiplier"
	paramCreation   = "creation_delay_sec"

	// maxZeros bounds what is made of nothing.
	maxZeros = 64 << 20
)

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{
		Name: "identity", Parameters: []string{paramDelay, paramMultiplier, paramCreation}, Settings: []string{},
		CheckParameter: checkParameter, Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
			return identity{}, nil
		},
	}
}

type identity struct{}

// Capabilities says that an instance takes any number of batches: they have
// nothing in common that could get in each other's way. With a delay they run one
// after the other, and those that wait for their turn are not begun.
func (identity) Capabilities() backend.Capabilities {
	delayed := func(cfg *backend.Config) bool {
		d, err := parameter(*cfg, paramDelay, time.Millisecond)
		return err != nil || d > 0
	}
	return backend.Capabilities{
		Kind: "KIND_CPU", Quick: func(cfg *backend.Config) bool { return !delayed(cfg) },
		DepthFor: func(cfg *backend.Config) int {
			if delayed(cfg) {
				return 1
			}
			return 1 << 16
		},
	}
}

func (identity) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (identity) Close() error { return nil }

// Load pairs outputs with inputs.
func (identity) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	m := &model{name: cfg.Name, batching: cfg.MaxBatchSize > 0}
	for i, out := range cfg.Outputs {
		in := partner(cfg.Inputs, out.Name, i)
		if in == nil {
			return nil, backend.Errorf(backend.InvalidArg, "model '%s' has no input for output '%s'", cfg.Name, out.Name)
		}
		if in.Datatype != out.Datatype {
			return nil, backend.Errorf(backend.InvalidArg, "expected input and output datatype to match, got %s for '%s' and %s for '%s'",
				in.Datatype, in.Name, out.Datatype, out.Name)
		}
		p := pair{in: in.Name, out: out.Name}
		if in.Optional {
			p.missing = &tensor.Tensor{Name: out.Name, Datatype: in.Datatype, Shape: in.Dims.Clone()}
			for j, d := range p.missing.Shape {
				if d < 0 {
					p.missing.Shape[j] = 1
				}
			}
		}
		m.pairs = append(m.pairs, p)
	}
	var err error
	if m.delay, err = parameter(cfg, paramDelay, time.Millisecond); err != nil {
		return nil, err
	}
	if m.creation, err = parameter(cfg, paramCreation, time.Second); err != nil {
		return nil, err
	}
	multiplier, err := parameter(cfg, paramMultiplier, 1)
	m.multiplier = int64(multiplier)
	return m, err
}

func partner(inputs []backend.IO, output string, i int) *backend.IO {
	if suffix, ok := strings.CutPrefix(output, "OUTPUT"); ok {
		for j := range inputs {
			if inputs[j].Name == "INPUT"+suffix {
				return &inputs[j]
			}
		}
	}
	if i < len(inputs) {
		return &inputs[i]
	}
	return nil
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	if name != paramDelay && name != paramMultiplier && name != paramCreation {
		return nil
	}
	_, err := parameter(*cfg, name, 1)
	return err
}

func parameter(cfg backend.Config, name string, unit time.Duration) (time.Duration, error) {
	text, ok := cfg.Parameters[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, backend.Errorf(backend.InvalidArg, "model '%s' has parameter '%s' with value '%s', expected a whole number", cfg.Name, name,
			text)
	}
	return time.Duration(n) * unit, nil
}

type pair struct {
	in, out string
	missing *tensor.Tensor // without data and batch dimension: what stands for an optional input
}

type model struct {
	pairs           []pair
	name            string
	batching        bool
	delay, creation time.Duration
	multiplier      int64
	instances       atomic.Int64
}

func (m *model) Allocator() tensor.Allocator { return nil }
func (m *model) Ready() error                { return nil }
func (m *model) Close() error                { return nil }

func (m *model) NewInstance(ctx context.Context, _ backend.InstanceConfig) (backend.Instance, error) {
	n := m.instances.Add(1) - 1
	if err := sleep(ctx, m.creation); err != nil {
		return nil, err
	}
	in := &instance{model: m, delay: m.delay}
	if in.delay > 0 {
		in.delay *= time.Duration(max(1, m.multiplier*n))
		in.turn = make(chan struct{}, 1)
	}
	return in, nil
}

type instance struct {
	model *model
	delay time.Duration
	turn  chan struct{} // with a delay, batches run one after the other
}

func (in *instance) Close() error { return nil }

// Execute answers every request with its own inputs.
func (in *instance) Execute(ctx context.Context, b *backend.Batch) error {
	if in.delay > 0 {
		select {
		case in.turn <- struct{}{}:
			defer func() { <-in.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sleep(ctx, in.delay); err != nil {
			return err
		}
	}
	for _, r := range b.Requests {
		_ = r.Respond(in.answer(r), true) // a cancelled request needs nothing more
	}
	return nil
}

// reply has room for the outputs of most models, so that an answer is one
// object.
type reply struct {
	backend.Response
	outputs [2]tensor.Tensor
}

func (in *instance) answer(r *backend.Request) *backend.Response {
	re := &reply{}
	re.Outputs = re.outputs[:0]
	for i, p := range in.model.pairs {
		if !r.Wants(p.out) {
			continue
		}
		var t *tensor.Tensor
		if i < len(r.Inputs) && r.Inputs[i].Name == p.in {
			t = &r.Inputs[i]
		} else if t = r.Input(p.in); t == nil {
			zeros, err := in.model.zeros(r, p.missing)
			if err != nil {
				return &backend.Response{Err: err}
			}
			re.Outputs = append(re.Outputs, zeros)
			continue
		}
		out := *t
		out.Name = p.out
		out.Retain()
		re.Outputs = append(re.Outputs, out)
	}
	return &re.Response
}

// zeros is the output for an optional input that is not given.
func (m *model) zeros(r *backend.Request, missing *tensor.Tensor) (tensor.Tensor, *backend.Error) {
	if missing == nil {
		return tensor.Tensor{}, backend.Errorf(backend.Unsupported, "an input of model '%s' is missing", m.name)
	}
	out := *missing
	if m.batching {
		rows := int64(1)
		if len(r.Inputs) > 0 && len(r.Inputs[0].Shape) > 0 {
			rows = r.Inputs[0].Shape[0]
		}
		out.Shape = append(tensor.Shape{rows}, missing.Shape...)
	}
	size, err := tensor.ByteSize(out.Datatype, out.Shape)
	if err != nil {
		return out, backend.AsError(err)
	}
	if size > maxZeros {
		return out, backend.Errorf(backend.InvalidArg,
			"the optional input of output '%s' is missing, and zeros in its place would take %d bytes, more than %d", out.Name, size,
			int64(maxZeros))
	}
	out.Data = make([]byte, size)
	return out, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
