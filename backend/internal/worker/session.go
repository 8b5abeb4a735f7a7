package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Spec says how to start and to stop the worker of one instance.
type Spec struct {
	Launcher *Launcher
	Command  Command
	// Name is the instance's, as in "m_0_0".
	Name string
	// Logger carries model and instance as attributes.
	Logger *slog.Logger
	Host   backend.Host
	// HelloTimeout bounds the time from start to HELLO; 0 is 30 seconds.
	HelloTimeout time.Duration
	// Grace is how long the worker may take to finalize; 0 is ten seconds.
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
	// Devices is that of ConnOptions.
	Devices *DevicePool
}

const (
	defaultHelloTimeout = 30 * time.Second
	// statusWait is how long the exit status is awaited when a worker's channel has
	// ended; after that it is killed.
	statusWait = time.Second
	// lateStatusWait is how long it is awaited after that.
	lateStatusWait = 10 * time.Second
	// termWait is how long SIGTERM may take to work.
	termWait = 2 * time.Second
)

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
	return finalizeGrace
}

// finalizeGrace is how long a model's finalize may take.
const finalizeGrace = 10 * time.Second

// Session is one life of a worker: a process and the connection with it.
type Session struct {
	// Conn is the connection.
	Conn *Conn

	spec  Spec
	proc  *process
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
	lines := &lineLog{logger: spec.logger(), rate: &logRate{logger: spec.logger()}}
	proc, err := spec.Launcher.start(timed, spec.Command, lines)
	if err != nil {
		if ctx.Err() == nil && timed.Err() != nil {
			return nil, backend.Errorf(backend.Internal, "Stub process '%s' is not healthy. It did not start within %v: %v", spec.Name, limit, err)
		}
		return nil, backend.Errorf(backend.Internal, "Stub process '%s' is not healthy. It could not be started: %v", spec.Name, err)
	}
	s := &Session{spec: spec, proc: proc}
	s.Conn, err = NewConn(proc.ch, ConnOptions{
		Logger: spec.Logger, rate: lines.rate, Host: spec.Host, OutputLimit: spec.OutputLimit, Devices: spec.Devices, Cause: s.died,
		load: loadOptions{limit: spec.LoadLimit, memory: spec.Command.Limits.Memory, pid: proc.pid},
	})
	if err != nil {
		s.proc.kill()
		s.proc.await(termWait)
		s.proc.release()
		return nil, err
	}
	hello, err := s.Conn.Hello(timed)
	if err == nil {
		spec.logger().Debug("worker started", slog.Int("pid", proc.pid), slog.String("python", hello.Python), slog.Duration("after", time.Since(begin)))
		return s, nil
	}
	if timed.Err() == nil { // it died
		<-s.Conn.Done()
		err = s.died(err)
	} else if ctx.Err() == nil {
		err = backend.Errorf(backend.Internal, "%s", withOutput(fmt.Sprintf("Stub process '%s' is not healthy. It did not start within %v", spec.Name, limit), lines))
	}
	s.Kill()
	return nil, err
}

// died finds out why the worker is gone. It waits for the exit status, and
// kills a process that only closed its channel.
func (s *Session) died(err error) *backend.Error {
	s.once.Do(func() {
		var broken *ProtocolError
		var late *lateError
		what, stack := "", ""
		switch {
		case errors.As(err, &late):
			what = late.Error()
			if s.spec.Traces {
				stack = s.proc.trace()
			}
		case errors.As(err, &broken):
			what = broken.Error()
		case errors.Is(err, errStuck), errors.Is(err, errEnded):
			what = err.Error()
		}
		if what != "" {
			s.proc.kill()
		}
		if !s.proc.await(statusWait) {
			// On a busy machine the news of its end may only be late: what it died of by
			// itself, or by another's hand, is the cause then.
			over := s.proc.over != nil && s.proc.over()
			s.proc.kill()
			known := s.proc.await(lateStatusWait)
			if what == "" && !over && (!known || s.proc.status.signal == "SIGKILL") {
				what = "the process closed its channel and went on"
			}
		}
		if what == "" {
			what = s.proc.status.String()
			if err != nil && !errors.Is(err, io.EOF) && !s.proc.status.known {
				what += ": " + err.Error()
			}
		}
		s.proc.signal(signalKill) // what the worker has started and left behind
		s.proc.sweep()
		s.cause = &backend.Error{
			Code:    backend.Internal,
			Message: fmt.Sprintf("Stub process '%s' is not healthy. %s", s.spec.Name, withOutput(what, s.proc.lines)),
		}
		if stack != "" {
			s.cause.Message += "\nIt was at:\n" + stack
		}
	})
	return s.cause
}

// Name returns the instance that the worker was started for.
func (s *Session) Name() string { return s.spec.Name }

// Stop lets the worker finalize and end, in bounded time, and waits for it.
func (s *Session) Stop() {
	s.reap.Do(func() {
		s.Conn.Exit()
		for _, step := range []struct {
			limit time.Duration
			next  processSignal
		}{{s.spec.grace(), signalTerm}, {termWait, signalKill}} {
			if s.proc.await(step.limit) {
				break
			}
			s.proc.killed.Store(true)
			s.spec.logger().Warn("worker does not end, sending a signal", slog.Int("pid", s.proc.pid))
			s.proc.signal(step.next)
		}
		s.finish()
	})
}

// Kill ends the worker at once and waits for it.
func (s *Session) Kill() {
	s.reap.Do(func() {
		s.proc.kill()
		s.finish()
	})
}

// finish waits for the process, which has ended or been killed, and closes
// what is left.
func (s *Session) finish() {
	s.proc.await(termWait)
	s.Conn.Close()
	s.proc.signal(signalKill) // what the worker has started and left behind
	s.proc.sweep()
	s.proc.drain()
	s.proc.release()
}
