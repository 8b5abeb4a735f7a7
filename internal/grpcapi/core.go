package grpcapi

import (
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// core is what inference needs of the engine, so that it runs alone in tests.
type core interface {
	// begin resolves and pins a version and returns a request for it. Until it is
	// handed to infer the request has to be abandoned.
	begin(name string, version, bytes int64, sink infer.Sink) (*infer.Request, served, error)
	// infer is hop 2. An error is a refusal: the request has been abandoned.
	infer(r *infer.Request) error
}

// served is a pinned model version.
type served interface {
	Config() *modelconfig.Config
	Version() int64
	Allocator() tensor.Allocator
	Labels(output string) []string
}

// engineCore is the engine as core.
type engineCore struct{ e *engine.Engine }

func (c engineCore) begin(name string, version, bytes int64, sink infer.Sink) (*infer.Request, served, error) {
	p, err := c.e.Resolve(name, version, bytes)
	if err != nil {
		return nil, nil, err
	}
	return p.NewRequest(sink), p.Model, nil
}

func (c engineCore) infer(r *infer.Request) error { return c.e.Infer(r) }
