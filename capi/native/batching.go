//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/object"
)

// batcher is a model's batching library with its TRITONBACKEND_Batcher, which is the
// library's own. Each question to it is a batch from its beginning to its end: nothing is
// kept from one to the next.
type batcher struct {
	as      *instance // what its requests are of: no instance of the model's
	model   *model
	library string
	batcher C.uintptr_t // what ModelBatcherInitialize has made
	// The functions of the library.
	initialize, finalize, begin, include, finish unsafe.Pointer
}

// batching opens the batching library of a model.
func (m *model) batching(i *host.Init, server *host.Server) (*batcher, error) {
	m.mu.Lock()
	m.config, m.may = string(i.Config), false
	m.mu.Unlock()
	b := &batcher{as: &instance{model: m, server: server, shapeTensors: shapeTensors(i.Config)}, model: m, library: i.Batching}
	if _, err := Link(i.Batching, []Entry{
		{"TRITONBACKEND_ModelBatcherInitialize", &b.initialize, true},
		{"TRITONBACKEND_ModelBatcherFinalize", &b.finalize, true},
		{"TRITONBACKEND_ModelBatchInitialize", &b.begin, true},
		{"TRITONBACKEND_ModelBatchIncludeRequest", &b.include, true},
		{"TRITONBACKEND_ModelBatchFinalize", &b.finish, true},
	}); err != nil {
		return nil, err
	}
	if err := taken(C.neso_out(b.initialize, C.uintptr_t(m.handle), 0, &b.batcher)); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *batcher) end() error { return taken(C.neso_call1(b.finalize, b.batcher)) }

// execute answers a question: requests join up to the first that the library does not
// include. It is not asked of those behind that one.
func (b *batcher) execute(asked []*host.Request) error {
	var batch C.uintptr_t
	if err := taken(C.neso_out(b.begin, b.batcher, 1, &batch)); err != nil {
		return fmt.Errorf("TRITONBACKEND_ModelBatchInitialize of '%s': %w", b.library, err)
	}
	var failed error
	joins := true
	for _, of := range asked {
		if joins {
			if joins, failed = b.includes(of, batch); failed != nil {
				break
			}
		}
		_ = of.Release() // broken: the answer says so
		if err := of.Answer(&host.Answer{Parameters: []backend.Parameter{backend.Bool(host.Joins, joins)}}, true); err != nil {
			return err
		}
	}
	if batch != 0 { // there is nothing to finalize otherwise
		if err := taken(C.neso_call1(b.finish, batch)); err != nil && failed == nil {
			failed = fmt.Errorf("TRITONBACKEND_ModelBatchFinalize of '%s': %w", b.library, err)
		}
	}
	return failed
}

func (b *batcher) includes(of *host.Request, batch C.uintptr_t) (bool, error) {
	r := newRequest(b.as, of)
	r.lookedAt = true
	defer r.abandon()
	var whether C.int
	if err := taken(C.neso_includes(b.include, C.uintptr_t(r.handle), batch, &whether)); err != nil {
		return false, fmt.Errorf("TRITONBACKEND_ModelBatchIncludeRequest of '%s': %w", b.library, err)
	}
	return whether != 0, nil
}

// toRead is the error for what a batching library may not do with a request.
func toRead() C.uintptr_t {
	return C.uintptr_t(object.Errorf(backend.InvalidArg, "a batching library may only read the requests that it is asked about"))
}
