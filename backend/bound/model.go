package bound

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

const (
	// batchDepth is one: while a callable runs, the next batch grows. A batch sent
	// ahead would be one of the first request that comes.
	batchDepth = 1
	// initWait bounds how long the process may take for a new instance, which runs
	// no code of the user's.
	initWait = 2 * time.Minute
	// unloadWait bounds how long the end of an instance waits for its thread.
	unloadWait = 10 * time.Second
	// stuckWait is that of one whose callable has not come back when it had to.
	stuckWait = 100 * time.Millisecond
)

// bound is the backend of one binding.
type bound struct {
	session   *Session
	number    uint64
	instances int
	batch     bool // the callables take gathered batches
	batching  bool // the model has a batch dimension
	timeout   time.Duration
	depth     int // batches that one callable has at once, 0 where it is no coroutine
}

// Capabilities implements backend.Backend.
func (b *bound) Capabilities() backend.Capabilities {
	c := backend.Capabilities{
		Depth: batchDepth, Gather: b.batch && b.batching, Kind: "KIND_CPU", Count: b.instances, LooseOutputs: true,
		Lingers: b.timeout > 0,
	}
	if b.depth > 0 { // a coroutine's are all begun at once: none is sent ahead of its turn
		c.Depth = b.depth
	}
	return c
}

// Complete implements backend.Backend.
func (b *bound) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

// Close implements backend.Backend.
func (b *bound) Close() error { return nil }

// Load implements backend.Backend.
func (b *bound) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	m := &model{
		bound: b, cfg: cfg, instances: map[*instance]struct{}{}, uses: make([]int, max(1, b.instances)),
		gather: b.batch && b.batching && cfg.MaxBatchSize > 0,
	}
	for _, io := range cfg.Inputs {
		m.tables.Inputs = append(m.tables.Inputs, io.Name)
	}
	for _, io := range cfg.BatchInputs {
		m.tables.Inputs = append(m.tables.Inputs, io.Name)
	}
	for _, io := range cfg.Outputs {
		m.tables.Outputs = append(m.tables.Outputs, io.Name)
	}
	if i := slices.IndexFunc(cfg.Instances, func(in backend.InstanceConfig) bool { return in.HostPolicy != nil }); i >= 0 {
		b.session.log.Warn("a host policy has no effect on callables: they run on threads of the program that has bound them", "model", cfg.Name,
			"policy", cfg.Instances[i].HostPolicy.Name)
	}
	if b.batching != (cfg.MaxBatchSize > 0) {
		return nil, backend.Errorf(backend.InvalidArg, "model '%s' is bound with another kind of batching, bind it again to change that",
			cfg.Name)
	}
	return m, nil
}

// model is one loaded version.
type model struct {
	bound  *bound
	cfg    backend.Config
	tables wire.Tables
	gather bool

	mu        sync.Mutex
	instances map[*instance]struct{}
	uses      []int // instances of each callable
}

// Allocator implements backend.Model. All models of a process share its memory.
func (m *model) Allocator() tensor.Allocator { return m.bound.session.arena }

// take returns the callable of a new instance, one of those that have the fewest:
// the one with its number, as in m_1, where it can be, whatever the order in which
// instances are made.
func (m *model) take(instance string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	least := slices.Min(m.uses)
	number, err := strconv.Atoi(instance[strings.LastIndexByte(instance, '_')+1:])
	index := number % len(m.uses)
	if err != nil || index < 0 || m.uses[index] > least {
		index = slices.Index(m.uses, least)
	}
	m.uses[index]++
	return index
}

func (m *model) giveBack(index int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses[index]--
}

// initBody is the body of INIT for a callable.
type initBody struct {
	Binding   uint64          `json:"binding"`
	Index     int             `json:"index"` // of the callable
	Name      string          `json:"name"`
	Config    json.RawMessage `json:"config"`
	Inputs    []string        `json:"inputs"`
	Outputs   []string        `json:"outputs"`
	Decoupled bool            `json:"decoupled"`
	Inline    int             `json:"inline_limit"`
	Window    int             `json:"window"`
	Board     *int            `json:"board,omitempty"` // see worker.InitBody
}

// NewInstance implements backend.Model.
func (m *model) NewInstance(ctx context.Context, ic backend.InstanceConfig) (backend.Instance, error) {
	index := m.take(ic.Name)
	s := m.bound.session
	number := s.ids.Add(1)
	in := &instance{model: m, number: number, index: index}
	// Where a batch may hold several requests it grows while the one before runs, and
	// what a coroutine is sent it begins at once.
	var board *board.Slot
	if !m.bound.batching && m.bound.depth == 0 && ic.Report != nil {
		board = s.conn.NewBoard()
	}
	in.wire = s.conn.Attach(worker.Instance{
		Board: board, Number: number, Name: ic.Name, Tables: m.tables, Decoupled: m.cfg.Decoupled, Window: true, Gather: m.gather,
		Arena: s.arena, InlineLimit: segment.DefaultInlineLimit, Writable: true, Timeout: m.bound.timeout,
	})
	body := initBody{
		Binding: m.bound.number, Index: index, Name: ic.Name, Config: m.cfg.JSON, Decoupled: m.cfg.Decoupled,
		Inputs: names(m.tables.Inputs), Outputs: names(m.tables.Outputs), Inline: segment.DefaultInlineLimit,
		Window: stream.Window, Board: board.Offset(),
	}
	timed, cancel := context.WithTimeout(ctx, initWait)
	defer cancel()
	if _, err := s.conn.Call(timed, wire.KindInit, number, body); err != nil {
		if timed.Err() != nil {
			// What it may make of it later is not wanted any more: it is only told so.
			_, _ = s.conn.Call(timed, wire.KindUnload, number, struct{}{})
			if ctx.Err() == nil {
				err = backend.Errorf(backend.Unavailable, "the process that has bound model '%s' has not taken it within %v", m.cfg.Name, initWait)
			}
		}
		s.conn.Detach(in.wire)
		m.giveBack(index)
		return nil, err
	}
	m.mu.Lock()
	m.instances[in] = struct{}{}
	m.mu.Unlock()
	if board != nil {
		ic.Report(backend.InstanceState{Ahead: in.wire.Ahead()})
	}
	return in, nil
}

// names is the list as JSON wants it: never null.
func names(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Ready implements backend.Model.
func (m *model) Ready() error {
	if err := m.bound.session.conn.Err(); err != nil {
		return cause(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for in := range m.instances {
		if in.wire.Overdue() > 0 {
			return backend.Errorf(backend.Unavailable, "the callable of instance '%s' has not returned within %v", in.wire.Name, m.bound.timeout)
		}
	}
	return nil
}

// Process implements backend.ProcessUser: the process that has bound the callable.
func (m *model) Process() int {
	if m.bound.session.conn.Err() != nil {
		return 0
	}
	return m.bound.session.pid
}

// HostMemory implements backend.MemoryUser: the resident memory of the process,
// all of it.
func (m *model) HostMemory() uint64 {
	s := m.bound.session
	if s.pid == 0 {
		return 0
	}
	size := limits.ResidentMemory(s.pid)
	if s.conn.Err() != nil { // the number may be another's by now
		return 0
	}
	return size
}

// Close implements backend.Model.
func (m *model) Close() error { return nil }

// instance is one callable on its thread.
type instance struct {
	model  *model
	number uint32
	index  int // of the callable
	wire   *worker.Instance

	closing sync.Once
}

// Execute implements backend.Instance.
func (i *instance) Execute(ctx context.Context, batch *backend.Batch) error {
	return i.wire.Execute(ctx, batch)
}

// Close implements backend.Instance. A thread that does not come back is left
// behind: it is the user's.
func (i *instance) Close() error {
	i.closing.Do(i.close)
	return nil
}

func (i *instance) close() {
	m := i.model
	m.mu.Lock()
	delete(m.instances, i)
	m.mu.Unlock()
	defer m.giveBack(i.index)
	s := m.bound.session
	defer s.conn.Detach(i.wire)
	if s.conn.Err() != nil {
		return
	}
	wait := unloadWait
	if i.wire.Stuck() {
		wait = stuckWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if _, err := s.conn.Call(ctx, wire.KindUnload, i.number, struct{}{}); err != nil && s.conn.Err() == nil {
		s.log.Warn("callable does not end", slog.String("instance", i.wire.Name), slog.Any("error", err))
	}
}
