// Package sleep is a backend that takes its time and then answers with its
// inputs; for tests and benchmarks.
//
// A batch takes as long as the longest of its requests: the first element of an
// input SLEEP_MS (INT32 or UINT32) in milliseconds, else the model parameter
// sleep_ms. Outputs are the inputs in the configuration's order. A cancelled
// request no longer counts; when none is left the wait ends.
package sleep

import (
	"context"
	"encoding/binary"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Input is the name of the input with the time in milliseconds.
const Input = "SLEEP_MS"

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{
		Name: "sleep", Parameters: []string{paramTime}, Settings: []string{}, CheckParameter: checkParameter,
		Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
			return sleep{}, nil
		},
	}
}

type sleep struct{}

func (sleep) Capabilities() backend.Capabilities { return backend.Capabilities{Kind: "KIND_CPU"} }

func (sleep) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (sleep) Close() error { return nil }

func (sleep) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	m := &model{inputs: cfg.Inputs, outputs: cfg.Outputs}
	if len(cfg.Outputs) > len(cfg.Inputs) {
		return nil, backend.Errorf(backend.InvalidArg, "model '%s' has more outputs than inputs", cfg.Name)
	}
	for i, out := range cfg.Outputs {
		if in := cfg.Inputs[i]; in.Datatype != out.Datatype {
			return nil, backend.Errorf(backend.InvalidArg, "expected datatype %s for output '%s', got %s", in.Datatype, out.Name, out.Datatype)
		}
	}
	var err error
	m.time, err = timeOf(&cfg)
	return m, err
}

// paramTime is the parameter of a model for its time of execution in milliseconds.
const paramTime = "sleep_ms"

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	if name != paramTime {
		return nil
	}
	_, err := timeOf(cfg)
	return err
}

func timeOf(cfg *backend.Config) (time.Duration, error) {
	text, ok := cfg.Parameters[paramTime]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, backend.Errorf(backend.InvalidArg, "model '%s' has parameter '%s' with value '%s', expected a whole number", cfg.Name,
			paramTime, text)
	}
	return time.Duration(n) * time.Millisecond, nil
}

type model struct {
	inputs, outputs []backend.IO
	time            time.Duration
}

func (*model) Allocator() tensor.Allocator { return nil }
func (*model) Ready() error                { return nil }
func (*model) Close() error                { return nil }

func (m *model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return instance{m}, nil
}

type instance struct{ *model }

func (in instance) Close() error { return nil }

// Execute waits and answers.
func (in instance) Execute(ctx context.Context, b *backend.Batch) error {
	longest := time.Duration(0)
	for _, r := range b.Requests {
		longest = max(longest, in.of(r))
	}
	if longest > 0 {
		wanted, cancel := context.WithCancel(ctx)
		defer cancel()
		var left atomic.Int64
		left.Store(int64(len(b.Requests)))
		for _, r := range b.Requests {
			if r.Ctx != nil && r.Ctx.Done() != nil {
				defer context.AfterFunc(r.Ctx, func() {
					if left.Add(-1) == 0 {
						cancel()
					}
				})()
			}
		}
		t := time.NewTimer(longest)
		defer t.Stop()
		select {
		case <-t.C:
		case <-wanted.Done():
			if ctx.Err() != nil {
				return backend.Errorf(backend.Unavailable, "the model is being closed")
			}
		}
	}
	for _, r := range b.Requests {
		if r.Cancelled() {
			_ = r.Respond(&backend.Response{Err: &backend.Error{Code: backend.Cancelled, Message: "request cancelled"}}, true)
			continue
		}
		_ = r.Respond(in.answer(r), true)
	}
	return nil
}

// of returns how long a request takes.
func (in instance) of(r *backend.Request) time.Duration {
	t := r.Input(Input)
	if t == nil || t.Datatype.Size() != 4 || len(t.Data) < 4 {
		return in.time
	}
	ms := binary.LittleEndian.Uint32(t.Data)
	if t.Datatype == tensor.Int32 && int32(ms) < 0 {
		ms = 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (in instance) answer(r *backend.Request) *backend.Response {
	resp := &backend.Response{}
	for i, out := range in.outputs {
		t := r.Input(in.inputs[i].Name)
		if t == nil || !r.Wants(out.Name) {
			continue
		}
		o := *t
		o.Name = out.Name
		o.Retain()
		resp.Outputs = append(resp.Outputs, o)
	}
	return resp
}
