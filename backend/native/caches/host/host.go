// Package host is the worker's side of package backend/native/caches: what a neso-host
// with a response cache runs. It speaks the worker protocol and has a Cache, which is
// C's business (package capi/cache), keep values. Open host.go first.
//
// Each instance of the protocol has a thread of its own. A look-up is a request with a
// key, an insertion one with a key and a value.
package host

import (
	"encoding/json"
	"errors"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/tensor"
)

// Open is the body of LOAD: the library.
type Open struct {
	Library string          `json:"library"`
	Name    string          `json:"name"`
	Config  json.RawMessage `json:"config"`
	// Verbose and Preload are those of package backend/native/host.
	Verbose bool     `json:"verbose,omitempty"`
	Preload []string `json:"preload,omitempty"`
}

// Tables are the tensors of a request.
var Tables = wire.Tables{Inputs: []string{"KEY", "VALUE"}, Outputs: []string{"VALUE"}}

// InlineLimit is how many bytes of a value travel in a frame.
const InlineLimit = segment.DefaultInlineLimit

// MaxValue bounds a value: what a library says of the size of one is not believed.
const MaxValue = 128 << 20

// Cache is a library that was opened. Open and Exit are called alone, the others by
// several threads.
type Cache interface {
	Open(o *Open) error
	// Lookup calls give, with room for a value of a size, when there is one.
	Lookup(key string, give func(size int) ([]byte, error)) error
	Insert(key string, value []byte) error
	Exit()
}

// Server is the way to the server.
type Server struct {
	host.Plugin
	cache Cache
}

// Connect takes over the inherited channels.
func Connect() (*Server, error) {
	s := &Server{}
	return s, s.Join(s)
}

// Serve works until the server says that it is enough, or is gone. It returns the
// exit status.
func (s *Server) Serve(c Cache) int {
	s.cache = c
	return s.Guest().Run()
}

// Call implements guest.Handler.
func (s *Server) Call(kind wire.Kind, instance uint32, body json.RawMessage) (any, error) {
	switch kind {
	case wire.KindLoad:
		var o Open
		if err := json.Unmarshal(body, &o); err != nil {
			return nil, err
		}
		return nil, s.cache.Open(&o)
	case wire.KindInit:
		return nil, s.Guest().Attach(instance, guest.Served{Tables: Tables, InlineLimit: InlineLimit, Execute: s.execute})
	case wire.KindUnload: // of the whole process, which ends
		return nil, nil
	default:
		return nil, errors.New("worker protocol: a response cache does not know this call")
	}
}

// execute answers look-ups and insertions.
func (s *Server) execute(batch []*guest.Request) error {
	for _, r := range batch {
		answer, err := s.answer(r)
		if err != nil {
			answer.Drop()
			answer = &guest.Answer{Err: backend.AsError(err)}
		}
		if err := r.Answer(answer, true); err != nil {
			return err
		}
		if err := r.Release(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) answer(r *guest.Request) (*guest.Answer, error) {
	switch len(r.Inputs) {
	case 1:
		return s.lookup(string(r.Inputs[0].Data))
	case 2:
		return &guest.Answer{}, s.cache.Insert(string(r.Inputs[0].Data), r.Inputs[1].Data)
	}
	return nil, backend.Errorf(backend.Internal, "worker protocol: %d tensors are neither a look-up nor an insertion", len(r.Inputs))
}

// lookup returns an answer with the value, without one where there is none.
func (s *Server) lookup(key string) (*guest.Answer, error) {
	a := &guest.Answer{}
	err := s.cache.Lookup(key, func(size int) ([]byte, error) {
		if size > MaxValue {
			return nil, backend.Errorf(backend.InvalidArg, "a value of %d bytes is more than the %d that there may be", size, MaxValue)
		}
		a.Drop()
		block, err := s.Guest().Allocate(size, InlineLimit)
		if err != nil {
			return nil, err
		}
		a.Outputs = []guest.Output{{Tensor: tensor.Tensor{
			Name: Tables.Outputs[0], Datatype: tensor.Uint8, Shape: tensor.Shape{int64(size)}, Data: block.Data(),
		}, Block: block}}
		return block.Data(), nil
	})
	if e := backend.AsError(err); err != nil && e.Code == backend.NotFound {
		a.Drop()
		return a, nil
	}
	return a, err
}

// Exit implements guest.Handler.
func (s *Server) Exit() { s.cache.Exit() }
