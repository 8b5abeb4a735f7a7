package cli

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/nesoserve/neso/backend/bound"
)

// control serves until ctx ends, a front end fails, or, with --control-fd, the
// process at the other end is gone or says stop; then it closes the server. The
// connection lasts until the models of that process are unloaded.
func control(ctx context.Context, o *serveOptions, log *slog.Logger) error {
	if o.controlFD < 0 {
		return o.server.Wait(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	channel, descriptors, err := bound.Inherit(o.controlFD, o.descriptorFD)
	if err != nil {
		return errors.Join(err, o.server.Close())
	}
	session, err := bound.Open(channel, descriptors, bound.Options{Server: &o.server, Logger: log, Stop: stop})
	if err != nil {
		return errors.Join(err, o.server.Close())
	}
	gone := make(chan struct{})
	go func() { // ends with the session, which is closed before this function returns
		defer close(gone)
		<-session.Done()
		switch err := session.Err(); {
		case ctx.Err() != nil: // stopping already
		case err != nil:
			log.Error("the connection with the process that started the server is broken, stopping", "error", err)
		default:
			log.Info("the process that started the server has ended, stopping")
		}
		stop()
	}()
	err = o.server.Wait(ctx)
	session.Close()
	<-gone
	return err
}

// ignoreBrokenPipes keeps a server alive whose log has nobody left to read it:
// it has requests to end in order.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

// guests opens the place where other processes bind callables, unless that is
// not allowed.
func (o *serveOptions) guests(log *slog.Logger) (*bound.Listener, error) {
	allowed := o.server.ControlMode == "explicit"
	if o.allowBind != nil {
		allowed = *o.allowBind
	}
	if !allowed || o.server.HTTP.Address == "" && o.server.GRPC.Address == "" {
		return nil, nil
	}
	l, err := bound.Listen(bound.Options{Server: &o.server, Logger: log})
	if err != nil {
		if o.allowBind == nil { // nobody asked for it
			log.Warn("processes cannot bind callables to this server", "error", err)
			return nil, nil
		}
		return nil, err
	}
	o.server.HTTP.Join, o.server.GRPC.Join = l.Ticket, l.Ticket
	return l, nil
}
