package grpcapi

import (
	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/internal/kserve"
)

// place has the large tensor of a request received where its model wants its
// inputs. That is a guess by the message's first bytes: nothing is decided
// before the message is there.
func (s *Server) place(method string, head []byte, size int) mem.BufferSlice {
	switch {
	case method != inferMethod && method != streamMethod:
		return nil
	case s.guarded(): // the caller may have no right to use the model's memory
		return nil
	}
	p, ok := kserve.FindPlace(head, size)
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
