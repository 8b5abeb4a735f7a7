package bound

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Server is what a session asks of the server; *neso.Server is one.
type Server interface {
	// BindBackend serves a version of a model with a backend of its own and returns
	// the complete configuration.
	BindBackend(ctx context.Context, name string, version int64, config []byte, b backend.Backend) ([]byte, error)
	// UnbindBackend ends that.
	UnbindBackend(ctx context.Context, name string, version int64, of backend.Backend) error
	// Host is what the callables may ask of the server.
	Host() backend.Host
	// Addresses are those that the server listens on, by front end.
	Addresses() map[string]string
	// Rollout returns the rules for the versions of a model, SetRollout changes them.
	Rollout(model string) ([]byte, error)
	SetRollout(ctx context.Context, model string, change []byte) error
}

// Options of a session.
type Options struct {
	Server Server
	Logger *slog.Logger
	// Stop, when not nil, lets the process stop the server.
	Stop func()
	// Grace is how long a callable may take to come back at the end; 0 is ten
	// seconds.
	Grace time.Duration
}

// Session is one process with callables.
type Session struct {
	o     Options
	log   *slog.Logger
	conn  *worker.Conn
	pid   int // of the process, 0 where that is not known
	arena *segment.Arena
	begun chan struct{} // closed when conn is set
	ids   atomic.Uint32 // of instances

	mu       sync.Mutex
	bindings map[key]*bound
	closed   bool
}

type key struct {
	name    string
	version int64
}

// Open speaks with a process over the server's ends of the control and the
// descriptor channel, which it takes over.
func Open(control, descriptors *os.File, o Options) (*Session, error) {
	s := &Session{o: o, log: o.Logger, begun: make(chan struct{}), bindings: map[key]*bound{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	ends, err := channel.EndsOf(control, descriptors)
	if err != nil {
		return nil, errors.Join(err, control.Close(), descriptors.Close())
	}
	host := o.Server.Host()
	s.pid = channel.PeerOf(control)
	s.arena = segment.NewArena(host.Allocator(), segment.DefaultInlineLimit, 0)
	conn, err := worker.NewConn(ends, worker.ConnOptions{
		Logger: s.log, Host: host, Grace: o.Grace, Serve: s.serve, KeepStuck: true, Arena: s.arena, Cause: cause,
	})
	if err != nil {
		s.arena.Close()
		return nil, err
	}
	s.conn = conn
	close(s.begun)
	return s, nil
}

// cause is what requests are answered with when the process is gone.
func cause(err error) *backend.Error {
	if errors.Is(err, io.EOF) || err == nil {
		return backend.Errorf(backend.Unavailable, "the process that bound the model has ended")
	}
	return backend.Errorf(backend.Unavailable, "the connection with the process that bound the model has ended: %v", err)
}

// Done is closed when the process is gone and everything that it had in flight
// has been answered.
func (s *Session) Done() <-chan struct{} { return s.conn.Done() }

// Err returns why the session ended, nil for an orderly end.
func (s *Session) Err() error {
	if err := s.conn.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// UnbindAll takes all models of the session out of service.
func (s *Session) UnbindAll(ctx context.Context) error {
	s.mu.Lock()
	all := s.bindings
	s.bindings = map[key]*bound{}
	s.mu.Unlock()
	var failed []error
	for k, b := range all {
		failed = append(failed, s.o.Server.UnbindBackend(ctx, k.name, k.version, b))
	}
	return errors.Join(failed...)
}

// Close ends the connection, after the models of the session are unloaded.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.conn.Close()
	s.arena.Close()
}

// bindBody is the body of BIND.
type bindBody struct {
	Name      string          `json:"name"`
	Version   int64           `json:"version"`
	Config    json.RawMessage `json:"config"`
	Binding   uint64          `json:"binding"`   // names the callables in INIT
	Instances int             `json:"instances"` // how many callables
	Shape     string          `json:"shape"`     // "batch" or "requests"
	TimeoutUS int64           `json:"timeout_us"`
	Depth     int             `json:"depth"` // batches at once for a callable that is a coroutine, else 0
}

// Shapes of calls.
const (
	shapeRequests = "requests"
	shapeBatch    = "batch"
)

const (
	// maxInstances bounds the callables of one binding.
	maxInstances = 4096
	// maxDepth bounds the batches that a coroutine has at once.
	maxDepth = 1024
)

func (b *bindBody) check() error {
	switch {
	case b.Version < 1:
		return backend.Errorf(backend.InvalidArg, "version %d of model '%s' is not a positive number", b.Version, b.Name)
	case b.Instances < 1 || b.Instances > maxInstances:
		return backend.Errorf(backend.InvalidArg, "model '%s' is bound to %d callables, expected 1 to %d", b.Name, b.Instances, maxInstances)
	case b.Shape != shapeRequests && b.Shape != shapeBatch:
		return backend.Errorf(backend.InvalidArg, "shape '%s' of model '%s' is not known", b.Shape, b.Name)
	case b.Depth < 0 || b.Depth > maxDepth:
		return backend.Errorf(backend.InvalidArg, "model '%s' asks for %d batches at once, expected at most %d", b.Name, b.Depth, maxDepth)
	case b.TimeoutUS < 0:
		return backend.Errorf(backend.InvalidArg, "timeout of model '%s' is negative", b.Name)
	}
	return nil
}

// serve answers the calls of the process.
func (s *Session) serve(ctx context.Context, kind wire.Kind, body json.RawMessage) (any, error) {
	<-s.begun
	switch kind {
	case wire.KindBind:
		var b bindBody
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "BIND: %v", err)
		}
		if err := b.check(); err != nil {
			return nil, err
		}
		return s.bind(ctx, &b)
	case wire.KindUnbind:
		var k struct {
			Name    string `json:"name"`
			Version int64  `json:"version"`
		}
		if err := json.Unmarshal(body, &k); err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "UNBIND: %v", err)
		}
		return nil, s.unbind(ctx, key{k.Name, k.Version})
	default:
		var c controlBody
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "CONTROL: %v", err)
		}
		return s.control(ctx, &c)
	}
}

// controlBody is the body of CONTROL.
type controlBody struct {
	Op string `json:"op"`
	// Model is that of "rollout", Change what becomes of its rules; none leaves them.
	Model  string  `json:"model"`
	Change *string `json:"change"`
}

func (s *Session) control(ctx context.Context, c *controlBody) (any, error) {
	switch {
	case c.Op == "server":
		return map[string]any{"addresses": s.o.Server.Addresses()}, nil
	case c.Op == "rollout":
		if c.Change != nil {
			if err := s.o.Server.SetRollout(ctx, c.Model, []byte(*c.Change)); err != nil {
				return nil, err
			}
		}
		text, err := s.o.Server.Rollout(c.Model)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(text), nil
	case c.Op == "stop" && s.o.Stop != nil:
		s.o.Stop()
		return nil, nil
	}
	return nil, backend.Errorf(backend.Unsupported, "operation '%s' is not known or not allowed", c.Op)
}

func (s *Session) bind(ctx context.Context, body *bindBody) (any, error) {
	b := &bound{
		session: s, number: body.Binding, instances: body.Instances, batch: body.Shape == shapeBatch,
		depth: body.Depth, timeout: time.Duration(min(body.TimeoutUS, 1<<50)) * time.Microsecond,
	}
	var limited struct {
		MaxBatchSize int64 `json:"max_batch_size"`
	}
	if err := json.Unmarshal(body.Config, &limited); err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "configuration of model '%s': %v", body.Name, err)
	}
	b.batching = limited.MaxBatchSize > 0
	config, err := s.o.Server.BindBackend(context.WithoutCancel(ctx), body.Name, body.Version, body.Config, b)
	if err != nil {
		return nil, err
	}
	// A load with another context than the call's would go on when the call has
	// ended, and bind a model that nobody unbinds.
	k := key{body.Name, body.Version}
	s.mu.Lock()
	s.bindings[k] = b
	closed := s.closed
	s.mu.Unlock()
	if closed { // the session ended meanwhile: nobody else will unbind it
		return nil, errors.Join(errClosed, s.unbind(context.WithoutCancel(ctx), k))
	}
	s.log.Info("bound", slog.String("model", body.Name), slog.Int64("version", body.Version), slog.String("shape", body.Shape),
		slog.Int("instances", body.Instances))
	return map[string]any{"config": json.RawMessage(config)}, nil
}

var errClosed = errors.New("the session is closed")

func (s *Session) unbind(ctx context.Context, k key) error {
	s.mu.Lock()
	b := s.bindings[k]
	delete(s.bindings, k)
	s.mu.Unlock()
	if b == nil {
		return backend.Errorf(backend.NotFound, "model '%s' version %d is not bound by this process", k.name, k.version)
	}
	return s.o.Server.UnbindBackend(ctx, k.name, k.version, b)
}
