// Package square is a decoupled backend: for an input IN of one INT32 element
// n it sends n responses, each with n as OUT, and then a final mark without
// outputs. A negative n means none.
//
// It follows the peer's backend of the same name, with its model parameters,
// all of them whole numbers that default to 0:
//
//	CUSTOM_INFER_DELAY_NS   how long each response is computed
//	CUSTOM_OUTPUT_DELAY_NS  how long the outputs of each one take after that
//	CUSTOM_CANCEL_DELAY_NS  how long ending a cancelled request takes
//	CUSTOM_EMPTY_COUNT      how many responses of a request, its last ones, are
//	                        empty: nothing is sent, statistics have them
//	CUSTOM_FAIL_COUNT       how many responses before those are errors
//
// What is computed when a request is cancelled is still sent and counted.
package square

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/pause"
	"github.com/nesoserve/neso/tensor"
)

const (
	paramInfer  = "CUSTOM_INFER_DELAY_NS"
	paramOutput = "CUSTOM_OUTPUT_DELAY_NS"
	paramCancel = "CUSTOM_CANCEL_DELAY_NS"
	paramEmpty  = "CUSTOM_EMPTY_COUNT"
	paramFail   = "CUSTOM_FAIL_COUNT"
)

func parameters() []string {
	return []string{paramInfer, paramOutput, paramCancel, paramEmpty, paramFail}
}

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{
		Name: "square", Parameters: parameters(), Settings: []string{}, CheckParameter: checkParameter,
		Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
			return square{}, nil
		},
	}
}

type square struct{}

func (square) Capabilities() backend.Capabilities {
	return backend.Capabilities{Kind: "KIND_CPU", CopiesOutputs: true}
}

func (square) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (square) Close() error { return nil }

func (square) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	switch {
	case !cfg.Decoupled:
		return nil, backend.Errorf(backend.InvalidArg, "square backend only supports decoupled models, '%s' is not", cfg.Name)
	case len(cfg.Inputs) != 1 || cfg.Inputs[0].Name != "IN" || cfg.Inputs[0].Datatype != tensor.Int32:
		return nil, backend.Errorf(backend.InvalidArg, "expected one input 'IN' of datatype INT32")
	case len(cfg.Outputs) != 1 || cfg.Outputs[0].Name != "OUT" || cfg.Outputs[0].Datatype != tensor.Int32:
		return nil, backend.Errorf(backend.InvalidArg, "expected one output 'OUT' of datatype INT32")
	}
	m := model{}
	for name, to := range map[string]*int64{
		paramInfer: (*int64)(&m.infer), paramOutput: (*int64)(&m.output), paramCancel: (*int64)(&m.cancel), paramEmpty: &m.empty,
		paramFail: &m.fail,
	} {
		n, err := parameter(&cfg, name)
		if err != nil {
			return nil, err
		}
		*to = n
	}
	return m, nil
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	if !slices.Contains(parameters(), name) {
		return nil
	}
	_, err := parameter(cfg, name)
	return err
}

func parameter(cfg *backend.Config, name string) (int64, error) {
	text, ok := cfg.Parameters[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31) // the peer's limit, 2.1 s for a delay
	if err != nil {
		return 0, backend.Errorf(backend.InvalidArg, "model '%s' has parameter '%s' with value '%s', expected a whole number", cfg.Name, name,
			text)
	}
	return int64(n), nil
}

// model is what the parameters say.
type model struct {
	infer, output, cancel time.Duration
	empty, fail           int64
}

func (model) Allocator() tensor.Allocator { return nil }
func (model) Ready() error                { return nil }
func (model) Close() error                { return nil }

func (m model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	in := &instance{model: m}
	in.life, in.end = context.WithCancel(context.Background())
	return in, nil
}

type instance struct {
	model   model
	life    context.Context // ends the senders
	end     context.CancelFunc
	senders sync.WaitGroup
}

// Close ends what is still being sent and waits for it.
func (in *instance) Close() error {
	in.end()
	in.senders.Wait()
	return nil
}

// Execute starts a sender for each request.
func (in *instance) Execute(_ context.Context, b *backend.Batch) error {
	for _, r := range b.Requests {
		t := r.Input("IN")
		if t == nil || len(t.Data) != 4 {
			_ = r.Respond(&backend.Response{Err: backend.Errorf(backend.InvalidArg, "expected input 'IN' with one element")}, true)
			continue
		}
		n := int32(binary.LittleEndian.Uint32(t.Data))
		shape := t.Shape.Clone()
		in.senders.Go(func() { in.send(r, n, shape) })
	}
	return nil
}

// send gives the responses. What it returns when nobody listens any more is
// found at the next one.
func (in *instance) send(r *backend.Request, n int32, shape tensor.Shape) {
	m := &in.model
	for i := range int64(max(0, n)) {
		if r.Cancelled() {
			in.sleep(m.cancel)
			_ = r.Respond(&backend.Response{Err: &backend.Error{Code: backend.Cancelled, Message: "request cancelled"}}, true)
			return
		}
		if !in.sleep(m.infer) {
			break
		}
		if i+m.empty >= int64(n) {
			_ = r.Respond(nil, false)
			continue
		}
		resp := &backend.Response{OutputStart: backend.Now()}
		if r.Wants("OUT") {
			data := binary.LittleEndian.AppendUint32(nil, uint32(n))
			resp.Outputs = []tensor.Tensor{{Name: "OUT", Datatype: tensor.Int32, Shape: shape.Clone(), Data: data}}
		}
		if !in.sleep(m.output) {
			break
		}
		if i+m.empty+m.fail >= int64(n) {
			resp.Err = backend.Errorf(backend.Unknown, "simulated failure")
		}
		_ = r.Respond(resp, false)
	}
	_ = r.Respond(nil, true)
}

// sleep waits for d; it returns false when the instance is closed first.
func (in *instance) sleep(d time.Duration) bool { return pause.For(d, in.life.Done(), nil) }
