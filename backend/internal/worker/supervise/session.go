package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Spec says how to start and to stop the worker of one instance.
type Spec struct {
	Launcher *process.Launcher
	Command  process.Command
	// Name is the instance's, as in "m_0_0".
	Name string
	// Logger carries model and instance as attributes.
	Logger *slog.Logger
	Host   backend.Host
	// HelloTimeout bounds the time from start to HELLO; 0 is 30 seconds.
	HelloTimeout time.Duration
	// Finalize is how long the model's finalize may take; 0 is two hours, as for a load.
	Finalize time.Duration
	// Grace is how long the worker may take to end then; 0 is ten seconds.
	Grace time.Duration
	// Limit is the Limit of the instance.
	Limit time.Duration
	// LoadLimit bounds LOAD, and each INIT; 0 is no bound.
	LoadLimit time.Duration
	// Traces says that the worker is one of Python's, which writes down where it is
	// before it ends when it gets SIGQUIT.
	Traces      bool
	OutputLimit uint64
	// Report takes the state of the instance, see backend.InstanceConfig.
	Report func(backend.InstanceState)
	// Restarted, if not nil, is told of each restart, see backend.InstanceConfig.
	Restarted func()
	// GivenUp, if not nil, cuts finalize short, see backend.InstanceConfig.
	GivenUp <-chan struct{}
	// Devices is that of ConnOptions.
	Devices *segment.DevicePool
}

const defaultHelloTimeout = 30 * time.Second

func (s *Spec) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.New(slog.DiscardHandler)
}

func (s *Spec) grace() time.Duration {
	if s.Grace > 0 {
		return s.Grace
	}
	return exitGrace
}

const (
	// finalizeLimit ends what would never end by itself. Whoever stops the server
	// waits no longer than --exit-timeout-secs.
	finalizeLimit = 2 * time.Hour
	// finalizeNotice is after what time a finalize is reported that goes on.
	finalizeNotice = 10 * time.Second
	exitGrace      = 10 * time.Second
	// givenUpGrace is what a finalize gets when the server has given it up: one that has
	// just begun, since requests took the time, may well end in it.
	givenUpGrace = 3 * time.Second
)

// Session is one life of a worker: a process and the connection with it.
type Session struct {
	// Conn is the connection.
	Conn *worker.Conn

	spec  Spec
	proc  *process.Process
	once  sync.Once
	cause *backend.Error
	reap  sync.Once
}

// Launch starts a process and waits for its HELLO.
func Launch(ctx context.Context, spec Spec) (*Session, error) {
	limit := spec.HelloTimeout
	if limit <= 0 {
		limit = defaultHelloTimeout
	}
	begin := time.Now()
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lines := linelog.New(spec.logger())
	if spec.Command.Here != nil {
		spec.Command.Near = &near.Near{} // of this life: handles of another one mean other requests
	}
	proc, err := spec.Launcher.Start(timed, spec.Command, lines)
	if err != nil {
		if ctx.Err() == nil && timed.Err() != nil {
			return nil, backend.Errorf(backend.Internal, "Stub process '%s' is not healthy. It did not start within %v: %v", spec.Name, limit, err)
		}
		return nil, backend.Errorf(backend.Internal, "Stub process '%s' is not healthy. It could not be started: %v", spec.Name, err)
	}
	s := &Session{spec: spec, proc: proc}
	s.Conn, err = worker.NewConn(proc.Ends(), worker.ConnOptions{
		Logger: spec.Logger, Rate: lines.Rate(), Host: spec.Host, OutputLimit: spec.OutputLimit, Devices: spec.Devices, Cause: s.died,
		Gone: proc.Gone(), Near: spec.Command.Near,
		Load: worker.LoadOptions{Limit: spec.LoadLimit, Memory: spec.Command.Limits.Memory, PID: proc.PID()},
	})
	if err != nil {
		s.proc.Kill()
		s.proc.Wait()
		s.proc.Release()
		return nil, err
	}
	hello, err := s.Conn.Hello(timed)
	if err == nil {
		spec.logger().Debug("worker started",
			slog.Int("pid", proc.PID()), slog.String("python", hello.Python), slog.Duration("after", time.Since(begin)))
		return s, nil
	}
	if timed.Err() == nil { // it died
		<-s.Conn.Done()
		err = s.died(err)
	} else if ctx.Err() == nil {
		late := fmt.Sprintf("Stub process '%s' is not healthy. It did not start within %v", spec.Name, limit)
		err = backend.Errorf(backend.Internal, "%s", linelog.WithOutput(late, lines))
	}
	s.Kill()
	return nil, err
}

// died finds out why the worker is gone. It waits for the exit status, and
// kills a process that only closed its channel.
func (s *Session) died(err error) *backend.Error {
	s.once.Do(func() {
		var broken *wire.ProtocolError
		var late *worker.LateError
		what, stack := "", ""
		switch {
		case errors.As(err, &late):
			what = late.Error()
			if s.spec.Traces {
				stack = s.proc.Trace()
			}
		case errors.As(err, &broken):
			what = broken.Error()
		case errors.Is(err, worker.ErrStuck), errors.Is(err, worker.ErrEnded):
			what = err.Error()
		}
		s.cause = &backend.Error{
			Code:    backend.Internal,
			Message: fmt.Sprintf("Stub process '%s' is not healthy. %s", s.spec.Name, s.proc.Cause(what, err)),
			Cause:   backend.ErrProcessEnded,
		}
		if stack != "" {
			s.cause.Message += "\nIt was at:\n" + stack
		}
	})
	return s.cause
}

// Name returns the instance that the worker was started for.
func (s *Session) Name() string { return s.spec.Name }

// Finish is Stop of a worker that serves: its model finalizes before, which may
// write what took hours to compute, unless it is given up; see InstanceConfig.GivenUp.
func (s *Session) Finish(givenUp <-chan struct{}) {
	grace := s.spec.grace()
	if !s.finalize(givenUp) {
		grace = 0 // it would not read EXIT either
	}
	s.stop(grace)
}

// finalize waits until the model has finalized or the worker is gone, and reports
// whether it has not taken too long.
func (s *Session) finalize(givenUp <-chan struct{}) bool {
	limit := s.spec.Finalize
	if limit <= 0 {
		limit = finalizeLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	notice := time.AfterFunc(finalizeNotice, func() {
		s.spec.logger().Info("finalize goes on", slog.Int("pid", s.proc.PID()),
			slog.Duration("since", finalizeNotice), slog.Duration("limit", limit))
	})
	defer notice.Stop()
	defer when(givenUp, cancel)()
	_, err := s.Conn.Call(ctx, wire.KindUnload, 0, struct{}{})
	return err == nil || ctx.Err() == nil
}

// when calls f a while after the server has given the worker up, unless what it returns
// has been called before.
func when(givenUp <-chan struct{}, f func()) (forget func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-givenUp:
		case <-over:
			return
		}
		t := time.NewTimer(givenUpGrace)
		defer t.Stop()
		select {
		case <-t.C:
			f()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// Stop lets the worker end, in bounded time, and waits for it.
func (s *Session) Stop() { s.stop(s.spec.grace()) }

func (s *Session) stop(grace time.Duration) {
	s.reap.Do(func() {
		s.Conn.Exit()
		s.proc.Stop(grace, func() {
			s.spec.logger().Warn("worker does not end, sending a signal", slog.Int("pid", s.proc.PID()))
		})
		s.finish()
	})
}

// Kill ends the worker at once and waits for it.
func (s *Session) Kill() {
	s.reap.Do(func() {
		s.proc.Kill()
		s.finish()
	})
}

// finish waits for the process, which has ended or been killed, and closes
// what is left.
func (s *Session) finish() {
	s.proc.Wait()
	s.Conn.Close()
	s.proc.CleanUp()
}
