package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// Config is how the server is started; its settings are those that clearing one
// leads back to.
type Config struct {
	Settings
	// File takes the traces where there is no Collector. Empty means none.
	File string
	// Collector takes spans; nil means the file.
	Collector *Collector
	Logger    *slog.Logger
}

// exporter is the end of a trace.
type exporter interface {
	// export takes a trace that is over. It does not wait.
	export(tr *Trace)
	// retire says that a sampler makes no more traces; those it made are to be
	// where users look for them when it returns, or a moment later.
	retire(s *sampler)
	// lost returns how many traces or spans could not be exported.
	lost() uint64
	// close flushes, for as long as ctx lives.
	close(ctx context.Context) error
}

// Tracer decides which requests are sampled. A nil Tracer samples none.
type Tracer struct {
	config Config
	log    *slog.Logger
	out    exporter // nil where traces have nowhere to go
	// table is nil while no request can be sampled: that is all an unsampled
	// server pays.
	table atomic.Pointer[table]
	last  atomic.Uint64 // number of the last request on a timeline

	mu     sync.Mutex
	server scope
	models map[string]*scope

	// live are the requests at work whose models may send others, by what the
	// models were given of the trace.
	liveMu sync.Mutex
	live   map[string]*node
}

// scope is the server, or a model, with what was set for it.
type scope struct {
	level        *Level
	rate         *uint32
	count        *int32
	logFrequency *uint32
	sampler      *sampler
}

// table holds the samplers of the scopes.
type table struct {
	server *sampler
	models map[string]*sampler
}

// sampler counts the requests of a scope under settings that do not change.
type sampler struct {
	settings Settings
	seen     atomic.Uint64
	left     atomic.Int64 // of the count; negative without end
	made     atomic.Int64 // of a count
	on       bool
	retired  bool // of the file's goroutine
}

func newSampler(s Settings) *sampler {
	n := &sampler{settings: s, on: s.Level != Off}
	n.left.Store(int64(s.Count))
	return n
}

// sample reports whether the next request is on a timeline; forced is one whose
// client traces it, whatever the rate and the count say.
func (s *sampler) sample(forced bool) bool {
	if !s.on {
		return false
	}
	if s.left.Load() == 0 {
		return forced
	}
	rate := uint64(s.settings.Rate)
	hit := rate != 0 && s.seen.Add(1)%rate == 0
	if !hit {
		return forced
	}
	if s.settings.Count < 0 {
		return true
	}
	for {
		n := s.left.Load()
		if n <= 0 {
			return forced
		}
		if s.left.CompareAndSwap(n, n-1) {
			s.made.Add(1)
			return true
		}
	}
}

// New returns a tracer. It opens no file and no connection before the first
// trace.
func New(c Config) (*Tracer, error) {
	t := &Tracer{config: c, log: c.Logger, models: map[string]*scope{}, live: map[string]*node{}}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Collector != nil:
		out, err := newCollector(*c.Collector, t.log)
		if err != nil {
			return nil, err
		}
		t.out = out
	case c.File != "":
		t.out = newJSONFile(c.File, t.log)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rebuildLocked("")
	if s := t.server.sampler.settings; s.Level != Off && !t.server.sampler.on {
		t.log.Warn("nothing is traced", "because", t.fault(s))
	}
	return t, nil
}

// fault says why settings cannot be: "" when they can.
func (t *Tracer) fault(s Settings) string {
	switch {
	case s.Level == Off:
	case s.Rate == 0 && t.config.Collector == nil:
		return "sample rate must be non-zero"
	case t.out == nil:
		return "trace file name is not given"
	}
	return ""
}

// settingsLocked returns what holds for a scope.
func (t *Tracer) settingsLocked(c *scope) Settings {
	s := t.config.Settings
	over := func(c *scope) {
		if c.level != nil {
			s.Level = *c.level
		}
		if c.rate != nil {
			s.Rate = *c.rate
		}
		if c.count != nil {
			s.Count = *c.count
		}
		if c.logFrequency != nil {
			s.LogFrequency = *c.logFrequency
		}
	}
	over(&t.server)
	if c != &t.server {
		over(c)
	}
	return s
}

// rebuildLocked makes new samplers after a change of the scope of model ("" for
// the server), and returns those that are no longer used.
func (t *Tracer) rebuildLocked(model string) (retired []*sampler) {
	renew := func(c *scope) {
		if c.sampler != nil {
			retired = append(retired, c.sampler)
		}
		s := t.settingsLocked(c)
		c.sampler = newSampler(s)
		c.sampler.on = c.sampler.on && t.fault(s) == ""
	}
	if model == "" {
		renew(&t.server)
	}
	next := &table{server: t.server.sampler, models: map[string]*sampler{}}
	on := next.server.on
	for name, c := range t.models {
		if model == "" || model == name {
			renew(c)
		}
		next.models[name] = c.sampler
		on = on || c.sampler.on
	}
	if !on {
		next = nil
	}
	t.table.Store(next)
	return retired
}

// Update changes the settings of the server, or of a model for a name that is not
// empty. A change that leads to what cannot be has no effect.
func (t *Tracer) Update(model string, c Change) *backend.Error {
	t.mu.Lock()
	at := &t.server
	if model != "" {
		if at = t.models[model]; at == nil {
			at = &scope{}
		}
	}
	next := *at
	if at.sampler != nil && (model == "" || at.count != nil) && at.sampler.settings.Count >= 0 {
		// What is left of the count, as clients see it.
		left := int32(at.sampler.left.Load())
		next.count = &left
	}
	apply(c.Level, &next.level)
	apply(c.Rate, &next.rate)
	apply(c.Count, &next.count)
	apply(c.LogFrequency, &next.logFrequency)
	was := *at
	*at = next
	settings := t.settingsLocked(at)
	// Unlike at start a rate of 0 is refused with a collector, too.
	why := t.fault(settings)
	if settings.Level != Off && settings.Rate == 0 {
		why = "sample rate must be non-zero"
	}
	if why != "" {
		*at = was
		t.mu.Unlock()
		return backend.Errorf(backend.InvalidArg, "Attempting to set invalid trace setting :%s", why)
	}
	if model != "" {
		t.models[model] = at
		if at.level == nil && at.rate == nil && at.count == nil && at.logFrequency == nil {
			delete(t.models, model)
		}
	}
	retired := t.rebuildLocked(model)
	if model != "" && t.models[model] == nil && was.sampler != nil {
		retired = append(retired, was.sampler)
	}
	t.mu.Unlock()
	if t.out != nil {
		for _, s := range retired {
			t.out.retire(s)
		}
	}
	return nil
}

// Fields returns the settings of the server, or of a model, in the order and
// form of the protocol.
func (t *Tracer) Fields(model string) []Field {
	t.mu.Lock()
	at := &t.server
	if c := t.models[model]; model != "" && c != nil {
		at = c
	}
	s := at.sampler.settings
	if s.Count >= 0 {
		s.Count = int32(at.sampler.left.Load())
	}
	t.mu.Unlock()
	fields := []Field{{Name: keyLevel, Values: s.Level.Names(), List: true}}
	add := func(name string, value any) {
		fields = append(fields, Field{Name: name, Values: []string{fmt.Sprint(value)}})
	}
	add(keyRate, s.Rate)
	add(keyCount, s.Count)
	c := t.config.Collector
	if c == nil {
		add(keyLogFrequency, s.LogFrequency)
		add(keyFile, t.config.File)
		add(keyMode, "triton")
		return fields
	}
	add(keyMode, "opentelemetry")
	add("url", cmp.Or(c.URL, defaultURL)) // as it was given
	if len(c.Resource) > 0 {
		var all []string
		for _, a := range c.Resource {
			all = append(all, a.Key+"="+a.Value)
		}
		add("resource", strings.Join(all, ","))
	}
	add("bsp_schedule_delay", max(0, cmp.Or(c.ScheduleDelay, defaultDelay)).Milliseconds())
	add("bsp_max_export_batch_size", c.batch())
	add("bsp_max_queue_size", c.queue())
	return fields
}

// On reports whether any request may be sampled.
func (t *Tracer) On() bool { return t != nil && t.table.Load() != nil }

// Frontend tells of the request's arrival and of its answers which events they
// are.
type Frontend struct{ receiveStart, receiveEnd, sendStart, sendEnd string }

// The front ends.
var (
	HTTP = &Frontend{"HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"}
	GRPC = &Frontend{"GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END"}
)

// Start begins the timeline of a request that has been decoded, if it is one of
// those that are sampled, and returns nil for all others. front is nil for a
// request of the program itself, which neither arrives nor is sent. header gives
// the client's headers or metadata by their lower-case names. The caller owes the
// trace a Done, after it has handed r to the engine.
func (t *Tracer) Start(r *infer.Request, front *Frontend, header func(name string) string) *Trace {
	if t == nil {
		return nil
	}
	all := t.table.Load()
	if all == nil {
		return nil
	}
	s := all.models[r.ModelName]
	if s == nil {
		s = all.server
	}
	if !s.on {
		return nil
	}
	var parent position
	if t.config.Collector != nil {
		parent = fromHeaders(header)
	}
	if !s.sample(parent.valid()) {
		return nil
	}
	tr := &Trace{tracer: t, sampler: s, front: front}
	if front != nil {
		tr.sent = 2
		tr.addFront(front.receiveStart, r.Times.Receive)
		tr.addFront(front.receiveEnd, max(r.Times.Start, r.Times.Receive))
	}
	switch {
	case t.config.Collector == nil:
	case front != nil:
		tr.put(parent)
	case parent.valid():
		tr.at = parent
	default:
		tr.at.trace = newTraceID()
	}
	r.Timeline = tr.add(nil)
	tr.refs++ // the front end's
	return tr
}

// Called returns the timeline of a request that a model sends with what it was
// given of the trace, context, or something made of it; nil for an untraced one.
func (t *Tracer) Called(context string) infer.Timeline {
	if t == nil || context == "" {
		return nil
	}
	t.liveMu.Lock()
	from := t.live[context]
	t.liveMu.Unlock()
	if from != nil {
		return from.Child()
	}
	all := t.table.Load()
	if all == nil || t.config.Collector == nil {
		return nil
	}
	// A span that the model has made itself, or one of a request that is over.
	parent := fromContext(context)
	if !parent.valid() || !all.server.on {
		return nil
	}
	tr := &Trace{tracer: t, sampler: all.server}
	tr.at = parent
	return tr.add(nil)
}

// Note notes something on the timeline of a request, which context names.
func (t *Tracer) Note(context, name string, at int64) {
	if t == nil || context == "" {
		return
	}
	t.liveMu.Lock()
	n := t.live[context]
	t.liveMu.Unlock()
	if n != nil {
		n.activity(name, at)
	}
}

func (t *Tracer) remember(n *node) {
	t.liveMu.Lock()
	defer t.liveMu.Unlock()
	t.live[n.context] = n
}

func (t *Tracer) forget(n *node) {
	t.liveMu.Lock()
	defer t.liveMu.Unlock()
	delete(t.live, n.context)
}

// Close exports what is there, for as long as ctx lives. The tracer samples
// nothing from then on.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.table.Store(nil)
	if t.out == nil {
		return nil
	}
	t.mu.Lock()
	all := []*sampler{t.server.sampler}
	for c := range maps.Values(t.models) {
		all = append(all, c.sampler)
	}
	t.mu.Unlock()
	for _, s := range all {
		t.out.retire(s)
	}
	return t.out.close(ctx)
}

// Dropped is a count of traces that were not exported, which is logged when it
// begins and once a minute while it grows.
type dropped struct {
	n    atomic.Uint64
	last atomic.Int64
	log  *slog.Logger
}

func (d *dropped) add(n int, why string) {
	total := d.n.Add(uint64(n))
	now := backend.Now()
	last := d.last.Load()
	if (last == 0 || now-last > int64(time.Minute)) && d.last.CompareAndSwap(last, now) {
		d.log.Warn("traces are dropped", "because", why, "dropped", total)
	}
}

// Dropped returns how many traces or spans could not be exported.
func (t *Tracer) Dropped() uint64 {
	if out := t.outOrNil(); out != nil {
		return out.lost()
	}
	return 0
}

func (t *Tracer) outOrNil() exporter {
	if t == nil {
		return nil
	}
	return t.out
}
