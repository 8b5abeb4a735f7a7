package perf

import (
	"context"
	"errors"
	"net/http"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/target"
)

// Server is a server within the process.
type Server interface {
	// HTTP makes requests of the server's HTTP form without a network.
	HTTP() http.RoundTripper
	// Conn makes inference requests by a call.
	Conn(call *LocalCall) drive.Conn
	Close() error
}

// LocalCall is what all requests to a server within the process have in common.
type LocalCall struct {
	Model, Version string
	Parameters     map[string]any
}

func (p *prepared) prepareLocal(_ context.Context, env Env) error {
	if env.Serve == nil {
		return errors.New("this program cannot run a server within itself")
	}
	return errors.New("not available")
}

var _ = target.ErrUnsupported
