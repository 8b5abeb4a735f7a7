//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"sync/atomic"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// flight is one inference of a request. The request may be the program's again before
// the last response has come: what responses need stands here.
type flight struct {
	ctx     cancelled
	request *request
	server  *server
	id      string
	model   string
	version int64

	respond, respondUser C.word
	allocator            *allocator
	allocatorUser        C.word
	tensors              []tensor.Tensor
	follow               *follower // nil without a trace

	begun atomic.Int32 // responses of which the allocator knows already
	given given        // room for the first output in memory that a backend has asked for
	used  atomic.Bool  // of given

	inPieces bool           // an input is
	memory   *tensor.Buffer // which the request is the program's again with; set by Keep
}

var errInFlight = backend.Errorf(backend.Internal, "the inference request is in flight: it is the server's until it is released")

//export TRITONSERVER_ServerInferAsync
func TRITONSERVER_ServerInferAsync(h, req, trace C.uintptr_t) C.uintptr_t {
	follow, bad := takeTrace(handle.Handle(trace))
	if bad != 0 {
		return C.uintptr_t(bad)
	}
	err := inferAsync(handle.Handle(h), handle.Handle(req), follow)
	if err != 0 && follow != nil {
		follow.abandon()
	}
	return C.uintptr_t(err)
}

func inferAsync(h, req handle.Handle, follow *follower) handle.Handle {
	s, r := serverOf(h), requests.Get(req)
	switch {
	case s == nil:
		return object.Stale("server")
	case r == nil:
		return object.Stale("inference request")
	}
	q, f, err := r.depart(s)
	if err != nil {
		return object.FromError(err)
	}
	var to neso.Follower
	if follow != nil {
		follow.describe(r.model, r.version, r.id)
		to, f.follow = follow, follow
	}
	if err := s.Submit(&f.ctx, q, f, to); err != nil {
		r.land()
		return object.FromError(err)
	}
	return 0
}

// depart makes the request the server's.
func (r *request) depart(s *server) (neso.Request, *flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.inflight.Load():
		return neso.Request{}, nil, errInFlight
	case r.release == 0 || r.respond == 0 || r.allocator == nil:
		return neso.Request{}, nil, backend.Errorf(backend.InvalidArg, "the inference request has no release callback, or no response callback")
	}
	f := &flight{
		request: r, server: s, id: r.id, model: r.model, version: r.version, respond: r.respond, respondUser: r.respondUser,
		allocator: r.allocator, allocatorUser: r.allocatorUser,
	}
	f.ctx.of = &s.flights
	q := neso.Request{
		Model: r.model, Version: r.version, ID: r.id, Outputs: r.outputs, Parameters: r.parameters, Priority: r.priority, Timeout: r.timeout,
		Correlation: r.correlation, Flags: backend.Flags(r.flags),
	}
	if q.Version < 0 {
		q.Version = 0
	}
	raw := ""
	if r.raw != "" {
		var err error
		if raw, err = r.deduce(s); err != nil {
			return q, nil, err
		}
	}
	f.tensors = r.tensors[:0]
	for i := range r.inputs {
		f.tensors = append(f.tensors, r.inputs[i].tensor())
		f.inPieces = f.inPieces || len(r.inputs[i].pieces) > 1
	}
	if raw != "" {
		f.tensors[0].Name = raw
	}
	r.tensors = f.tensors
	q.Inputs = f.tensors
	r.flight = f
	r.inflight.Store(true)
	return q, f, nil
}

// land makes a request the program's again.
func (r *request) land() {
	r.mu.Lock()
	for i := range r.tensors {
		r.tensors[i].Release()
	}
	r.mu.Unlock()
	r.inflight.Store(false)
}

// tensor returns the input as the server takes it: where the program left it, unless
// it came in pieces. Copies for host policies are the same tensor in memory near the
// instances of a policy: the data that is for all stands for them.
func (in *input) tensor() tensor.Tensor {
	t := tensor.Tensor{Name: in.name, Datatype: in.datatype, Shape: in.shape}
	switch len(in.pieces) {
	case 0:
	case 1:
		t.Data = in.pieces[0]
	default:
		t.Data = make([]byte, 0, in.size)
		for _, p := range in.pieces {
			t.Data = append(t.Data, p...)
		}
	}
	return t
}

// deduce gives the sole input of a raw request the datatype and shape of the model, and
// returns the name that it has there: the program knows it by its own.
func (r *request) deduce(s *server) (string, error) {
	facts, err := s.facts(r.model, r.version)
	if err != nil {
		return "", err
	}
	refuse := func(format string, args ...any) (string, error) {
		return "", backend.Errorf(backend.InvalidArg, r.prefix()+format, args...)
	}
	if len(r.inputs) != 1 || len(facts.Input) != 1 {
		return refuse("Raw request must only have 1 input (found %d) to be deduced but got %d inputs in '%s' model configuration", len(r.inputs),
			len(facts.Input), r.model)
	}
	want, in := facts.Input[0], &r.inputs[0]
	shape, open, elements := []int64(nil), -1, int64(1)
	if facts.MaxBatchSize > 0 {
		shape = append(shape, 1)
	}
	for _, n := range want.Dims {
		dim, _ := json.Number.Int64(n)
		if dim < 0 {
			if open >= 0 {
				return refuse("The shape of the raw input '%s' can not be deduced because there are more than one variable-sized dimension",
					want.Name)
			}
			open = len(shape)
		} else {
			elements *= dim
		}
		shape = append(shape, dim)
	}
	in.datatype = datatypeOf(want.Datatype)
	switch {
	case in.datatype == tensor.Bytes && (open >= 0 || elements != 1):
		return refuse("For BYTE datatype raw input '%s', the model must have input shape [1]", want.Name)
	case in.datatype == tensor.Bytes:
		if len(in.shape) == 0 { // the first time: the length stands before the bytes
			length := binary.LittleEndian.AppendUint32(nil, uint32(in.size))
			in.pieces, in.size = append([][]byte{length}, in.pieces...), in.size+len(length)
		}
	case open >= 0 && elements > 0 && in.datatype.Size() > 0:
		shape[open] = int64(in.size) / elements / int64(in.datatype.Size())
	}
	in.shape = shape
	return want.Name, nil
}

func datatypeOf(config string) tensor.Datatype {
	for _, d := range tensor.Datatypes() {
		if d.ConfigName() == config {
			return d
		}
	}
	return tensor.Invalid
}

// prefix is what the texts of the peer's errors begin with.
func (r *request) prefix() string { return prefix(r.id) }

func prefix(id string) string {
	if id == "" {
		return "[request id: <id_unknown>] "
	}
	return "[request id: " + id + "] "
}

// Pinned implements neso.Receiver.
func (f *flight) Pinned(model string, version int64) { f.model, f.version = model, version }

// Respond implements neso.Receiver: a response in memory of the program's allocator.
func (f *flight) Respond(resp *backend.Response, final bool) {
	flags, h := C.uint32_t(0), handle.Handle(0)
	if final {
		flags = 1
	}
	if resp != nil {
		h = f.response(resp)
		resp.Release()
	}
	C.call_notice(f.respond, C.word(h), flags, f.respondUser)
}

// Released implements neso.Receiver.
func (f *flight) Released() {
	r := f.request
	release, userp, h := r.release, r.releaseUser, r.handle
	f.server.flights.forget(&f.ctx)
	r.land()
	C.call_notice(release, C.word(h), 1, userp)
}
