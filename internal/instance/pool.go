package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// Settings are the settings of the server that instances obey.
type Settings struct {
	// HangTimeout is after how long without progress a busy instance is interrupted,
	// and replaced if it ignores that; 0 means never. Executions run on goroutines of
	// their own then, since one that never returns must not hold a client's.
	HangTimeout time.Duration
	// Words are what messages call settings of the server.
	Words setting.Words
	// GivenUp is that of backend.InstanceConfig.
	GivenUp <-chan struct{}
}

// Options say what to make instances of.
type Options struct {
	Settings
	Model        backend.Model
	Capabilities backend.Capabilities
	Instances    []backend.InstanceConfig
	// Inputs tell which ones are ragged when inputs are gathered.
	Ragged map[string]bool
	// BatchInputs are made from each batch, for backends that gather; Scattered
	// says how their outputs are divided.
	BatchInputs []modelconfig.BatchInput
	Scattered   []backend.Scattered
	// Batching says whether tensors have a batch dimension.
	Batching  bool
	Decoupled bool
	// Starts says that the backend does not wait for what it executes, see
	// backend.Capabilities.
	Starts bool
	// Parallel has instances made side by side although the backend is serial.
	Parallel bool
	// Limits says when an instance may run; nil without a rate limiter. Executions
	// of warm-up samples do not ask.
	Limits *ratelimit.Group
	// Allocator gives memory for gathered inputs.
	Allocator tensor.Allocator
	Stats     *stats.Version
	Logger    *slog.Logger
	// Warm, if not nil, is called for every instance before the pool is ready.
	Warm func(ctx context.Context, run Run) error
}

// Run executes a batch on one certain instance; count says whether it counts in
// the statistics.
type Run func(requests []*infer.Request, count bool)

// Pool holds the instances of a version. It is hop 5 of every scheduler: it
// implements scheduler.Capacity, dynamic.Executor and sequence.Executor.
type Pool struct {
	o Options
	capacity
	executions sync.Pool // of *execution

	ctx  context.Context // of all executions, ends with Close
	stop context.CancelFunc

	hung    atomic.Int32   // instances that are stuck or being replaced
	stuck   atomic.Int32   // instances without progress, those included
	hangs   atomic.Int64   // interruptions so far
	departs sync.WaitGroup // instances that leave

	closeOnce sync.Once
	closeErr  error
}

// Open creates and warms up the instances, see Make. On error it closes those it
// made.
func Open(ctx context.Context, o Options) (*Pool, error) {
	if len(o.Instances) == 0 {
		return nil, backend.Errorf(backend.Internal, "a model needs at least one instance")
	}
	active := slices.IndexFunc(o.Instances, func(c backend.InstanceConfig) bool { return c.Passive })
	if active == 0 {
		return nil, backend.Errorf(backend.InvalidArg, "all instances of the model are passive: none would take its requests")
	} else if active < 0 {
		active = len(o.Instances)
	}
	p := &Pool{o: o}
	p.init(active, max(1, o.Capabilities.Depth))
	if p.limits = o.Limits; p.limits != nil {
		p.limits.OnTurn(p.Admit) // unless a batcher asks
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	all := p.Reserve(o.Instances)
	if err := p.Make(ctx, all); err != nil {
		p.stop()
		return nil, err
	}
	p.Join(all)
	return p, nil
}

func (p *Pool) newInstance(ctx context.Context, s *slot) (in backend.Instance, err error) {
	cfg := s.cfg
	cfg.Report, cfg.GivenUp = p.reports(s).take, p.o.GivenUp
	if p.o.Stats != nil {
		cfg.Restarted, cfg.Responded = p.o.Stats.Restarted, p.o.Stats.Reported
	}
	err = Guard(p.o.Logger, "create instance "+cfg.Name, func() (err error) {
		in, err = p.o.Model.NewInstance(ctx, cfg)
		return err
	})
	if err == nil && in == nil {
		err = backend.Errorf(backend.Internal, "the backend made no instance '%s'", cfg.Name)
	}
	return in, err
}

// Limits says when an instance may run, or is nil.
func (p *Pool) Limits() *ratelimit.Group { return p.o.Limits }

// Close closes the instances. It must not be called before the last Execute
// has returned; Interrupt helps to get there.
func (p *Pool) Close() error {
	p.closeOnce.Do(func() {
		p.stop()
		p.departs.Wait()
		all := p.slots()
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		for i, s := range all {
			switch {
			case s == nil:
			case p.o.Capabilities.Serial:
				errs[i] = p.closeSlot(s)
			default:
				wg.Go(func() { errs[i] = p.closeSlot(s) })
			}
		}
		wg.Wait()
		p.closeErr = errors.Join(errs...)
	})
	return p.closeErr
}

// closeSlot closes the instance of a slot that runs nothing, if there is one.
func (p *Pool) closeSlot(s *slot) error {
	s.stop()
	s.replaces.Wait()
	if l := s.life.Load(); l != nil && !l.abandoned() {
		return p.closeInstance(s, l.instance)
	}
	return nil
}

func (p *Pool) closeInstance(s *slot, in backend.Instance) error {
	return Guard(p.o.Logger, "close instance "+s.cfg.Name, in.Close)
}

// Interrupt ends the context of all executions.
func (p *Pool) Interrupt() { p.stop() }

// Guard calls f and turns a panic of a backend into an error.
func Guard(log *slog.Logger, what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if log != nil {
				log.Error("backend panicked", slog.String("doing", what), slog.String("panic", fmt.Sprint(v)),
					logging.Block("stack", string(debug.Stack())))
			}
			err = backend.Errorf(backend.Internal, "backend panicked: %v", v)
		}
	}()
	return f()
}

// Grace is how long closing waits for an execution that has been interrupted.
const Grace = 5 * time.Second
