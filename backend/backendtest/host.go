package backendtest

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// The other model of the host, which a model of [Suite.Calling] calls: it answers
// with its input as its output.
const (
	HostModel  = "echo"
	HostInput  = "IN"
	HostOutput = "OUT"
)

// What the first INT32 element of a call to it brings about, in place of an answer.
const (
	failedCall  = -1 // an error response
	refusedCall = -2 // Infer itself fails
)

// host is a server that has one other model.
type host struct {
	memory *counting
	calls  sync.WaitGroup
}

func (h *host) Allocator() tensor.Allocator { return h.memory }
func (h *host) Logger() *slog.Logger        { return slog.New(slog.DiscardHandler) }

// Infer answers on another goroutine, as the server does.
func (h *host) Infer(r *backend.Request) error {
	if r.ModelName != HostModel || len(r.Inputs) != 1 || r.Inputs[0].Name != HostInput {
		return backend.Errorf(backend.NotFound, "the suite has one other model, '%s', with the input '%s'", HostModel, HostInput)
	}
	in := r.Inputs[0]
	element := int32(0)
	if len(in.Data) >= 4 {
		element = int32(binary.LittleEndian.Uint32(in.Data))
	}
	if element == refusedCall {
		return backend.Errorf(backend.Unavailable, "the call is refused")
	}
	b, err := h.memory.Allocate(len(in.Data))
	if err != nil {
		return err
	}
	copy(b.Bytes(), in.Data)
	resp := &backend.Response{Outputs: []tensor.Tensor{{
		Name: HostOutput, Datatype: in.Datatype, Shape: in.Shape.Clone(), Data: b.Bytes(),
		Buffer: b,
	}}}
	if element == failedCall {
		resp.Release()
		resp = &backend.Response{Err: backend.Errorf(backend.InvalidArg, "the call has failed")}
	}
	h.calls.Go(func() { _ = r.Responder.Respond(resp, true) })
	return nil
}

func (h *host) Load(context.Context, string, string, map[string][]byte) error {
	return backend.Errorf(backend.Unsupported, "the suite loads no other models")
}

func (h *host) Unload(context.Context, string, bool) error {
	return backend.Errorf(backend.Unsupported, "the suite unloads no models")
}

func (h *host) Ready(model string, _ int64) bool { return model == HostModel }

func (h *host) Activity(string, string, int64) {}

func (h *host) Document(backend.Question) ([]byte, error) {
	return nil, backend.Errorf(backend.Unsupported, "the suite has no documents")
}

func (h *host) MetricFamily(backend.MetricFamily) (func(), error) {
	return nil, backend.Errorf(backend.Unsupported, "the suite keeps no metrics")
}

func (h *host) Metric(backend.MetricFamily, map[string]string) (backend.Metric, error) {
	return nil, backend.Errorf(backend.Unsupported, "the suite keeps no metrics")
}
