package grpcapi

import (
	"context"

	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/kserve/protowire"
)

// known looks at the beginning of a compressed request: one for a model that is
// not there, or not for the caller, is refused before the rest is inflated. What
// begins with something else is judged once it is there.
func (s *Server) known(ctx context.Context, method string, head []byte) error {
	if method != inferMethod && method != streamMethod {
		return nil
	}
	name, version, ok := protowire.FindModel(head)
	if !ok {
		return nil
	}
	bad := s.caller(ctx).May(auth.Inference, name)
	if bad == nil {
		err := s.o.Engine.Serves(name, version)
		if err == nil {
			return nil
		}
		bad = backend.AsError(err)
	}
	if method == streamMethod {
		return &notKnown{bad, name}
	}
	return statusOf(bad)
}

// notKnown is why a request of a stream was not read. The stream goes on.
type notKnown struct {
	bad   *backend.Error
	model string
}

func (e *notKnown) Error() string { return e.bad.Message }

// receiveInto has the large tensor of a request received where its model wants its
// inputs. That is a guess by the message's first bytes: nothing is decided
// before the message is there.
func (s *Server) receiveInto(method string, head []byte, size int) mem.BufferSlice {
	switch {
	case method != inferMethod && method != streamMethod:
		return nil
	case s.guarded(): // the caller may have no right to use the model's memory
		return nil
	}
	p, ok := protowire.FindTensor(head, size)
	if !ok {
		return nil
	}
	a := s.o.Engine.AllocatorOf(p.ModelName, p.Version)
	if a == nil {
		return nil
	}
	parts, err := p.Receive(size, a)
	if err != nil {
		return nil // the request is told, should it still be so
	}
	return parts
}
