package perf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/target"
	"github.com/nesoserve/neso/internal/perf/wire"
)

// Server is a server within the process.
type Server interface {
	// HTTP makes requests of the server's HTTP form without a network.
	HTTP() http.RoundTripper
	// Call says how inference requests are made that have call in common.
	Call(call *LocalCall) drive.Call
	Close() error
}

// LocalCall is what all requests to a server within the process have in common.
type LocalCall struct {
	Model      string
	Version    int64 // 0 is the latest
	Parameters []wire.Parameter
	Sequence   bool
	Decoupled  bool
}

// prepareLocal starts a server within the process, with the model and those that it
// is said to call. ctx bounds no more than the start.
func (p *prepared) prepareLocal(ctx context.Context, env Env) error {
	o := p.o
	if env.Serve == nil {
		return errors.New("this program cannot run a server within itself")
	}
	call := &LocalCall{Model: o.Model}
	if o.Version != "" {
		var err error
		if call.Version, err = strconv.ParseInt(o.Version, 10, 64); err != nil || call.Version <= 0 {
			return fmt.Errorf("-x %s: expected a version, a number from 1 on", o.Version)
		}
	}
	srv, err := env.Serve(ctx, o.Repository, o.Model, o.Composing)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() {
		if err := srv.Close(); err != nil {
			fmt.Fprintln(env.Stderr, "the server's end:", measure.Plain(err.Error()))
		}
	})
	c := client.New("localhost")
	c.HTTP = &http.Client{Transport: srv.HTTP()}
	p.api = target.HTTP(c)
	p.call = &wire.Call{Model: o.Model, Version: o.Version}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := p.describe(ctx); err != nil {
		return err
	}
	p.compose()
	if err := p.encode(); err != nil {
		return err
	}
	call.Parameters, call.Sequence, call.Decoupled = p.call.Parameters, p.model.Sequence, p.model.Decoupled
	local := srv.Call(call)
	p.dial = func() drive.Conn { return drive.Local(local) }
	return nil
}

// describe asks for what must be known of the model, and makes the data.
func (p *prepared) describe(ctx context.Context) (err error) {
	o := p.o
	if p.model, err = target.Describe(ctx, p.api, o.Model, o.Version); err != nil {
		return reached(o, err)
	}
	if err := target.Known(ctx, p.api, o.Composing); err != nil {
		return fmt.Errorf("--bls-composing-models: %w", reached(o, err))
	}
	if len(o.Trace) > 0 {
		if err := p.api.Trace(ctx, o.Model, o.Trace); err != nil {
			return fmt.Errorf("failed to set the trace settings: %w", err)
		}
	}
	return p.load()
}
