package ondemand

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/residency"
	"github.com/nesoserve/neso/internal/setting"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

const config = `backend: "echo"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
`

// world is a Loader over a real manager and repository, whose models are as the test says.
type world struct {
	t    *testing.T
	top  string
	echo *nesotest.Echo
	life *lifecycle.Manager
	repo *repository.Repository
	l    *Loader

	began time.Time
	asked sync.WaitGroup
	last  int

	mu     sync.Mutex
	takes  map[string]time.Duration
	broken map[string]bool
	loads  map[string]int
	said   []said
}

// said is what has become of a request.
type said struct {
	at   time.Duration
	id   int
	text string
}

// bubble runs f in a bubble, whose clock has gone on from the year 2000 to after the start
// of the process: backend.Now counts from that.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for backend.Now() <= 0 {
			time.Sleep(365 * 24 * time.Hour)
		}
		f(t)
	})
}

// open makes a world, which close ends. It belongs to the bubble of the test.
func open(t *testing.T, s Settings) *world {
	t.Helper()
	w := &world{
		t: t, top: t.TempDir(), began: time.Now(), takes: map[string]time.Duration{}, broken: map[string]bool{}, loads: map[string]int{},
	}
	w.echo = &nesotest.Echo{Name: "echo", OnLoad: w.load}
	repo, err := repository.Open(repository.Options{Settings: repository.Settings{TempDir: t.TempDir()}, Paths: []string{w.top}})
	if err != nil {
		t.Fatal(err)
	}
	w.repo = repo
	log := slog.New(slog.DiscardHandler)
	pool := memory.New(memory.Options{})
	t.Cleanup(pool.Close)
	w.life = lifecycle.New(lifecycle.Options{
		Repository: repo, Backends: []backend.Driver{w.echo.Driver()}, Logger: log, Allocator: pool,
		LoadSettings: lifecycle.LoadSettings{LoadThreads: 4},
	})
	w.l = New(Options{Settings: s, Life: w.life, Repository: repo, Logger: log, Words: setting.Options})
	w.l.Start()
	return w
}

func (w *world) close() {
	w.l.Close()
	w.asked.Wait()
	if err := w.life.Close(context.Background()); err != nil {
		w.t.Errorf("Close: %v", err)
	}
	if err := w.repo.Close(); err != nil {
		w.t.Error(err)
	}
	if n := w.echo.Alive(); n != 0 {
		w.t.Errorf("%d backends, models or instances are left", n)
	}
	if n := len(w.l.waiters); n != 0 {
		w.t.Errorf("%d waiters are left", n)
	}
}

// load is what the backend does to load a version.
func (w *world) load(ctx context.Context, cfg backend.Config) error {
	w.mu.Lock()
	w.loads[cfg.Name]++
	takes, broken := w.takes[cfg.Name], w.broken[cfg.Name]
	w.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if broken {
		return errors.New("its weights are damaged")
	}
	return nil
}

// put writes a model, or writes it anew.
func (w *world) put(name string, o map[string]string) {
	text := config
	if _, pinned := o["pin"]; pinned {
		text += "parameters { key: \"on_demand_pin\" value { string_value: \"true\" } }\n"
	}
	if idle := o["idle"]; idle != "" {
		text += fmt.Sprintf("parameters { key: \"on_demand_idle_secs\" value { string_value: %q } }\n", idle)
	}
	nesotest.Put(w.t, w.top, name+"/config.pbtxt", text)
	nesotest.Put(w.t, w.top, name+"/1/weights", strings.Repeat("x", transcript.Number(o["bytes"], 1)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes[name] = transcript.Duration(o["takes"])
	_, w.broken[name] = o["broken"]
}

func (w *world) say(id int, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, said{time.Since(w.began), id, strings.TrimSpace(fmt.Sprintf(format, args...))})
}

// request asks for a model as the engine does, holds it for so long, and says what came
// of that.
func (w *world) request(name string, o map[string]string) {
	w.last++
	id, version := w.last, int64(transcript.Number(o["version"], -1))
	ctx, cancel := context.WithCancel(context.Background())
	if d := transcript.Duration(o["deadline"]); d > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), d)
	}
	w.asked.Go(func() {
		defer cancel()
		var m *model.Model
		found, err := w.l.Bring(ctx, o["by"], name, func() bool {
			m = w.life.PinFor("", name, version)
			return m != nil
		})
		switch {
		case err != nil:
			w.say(id, "%v: %v%s", backend.AsError(err).Code, err, retry(err))
		case !found:
			w.say(id, "nothing to load: %v", w.life.Explain(name, version))
		default:
			m.Use(backend.Now())
			w.say(id, "served")
			time.Sleep(transcript.Duration(o["for"]))
			m.Unpin()
			w.l.signal()
		}
	})
}

func retry(err error) string {
	if d := backend.AsError(err).RetryAfter; d > 0 {
		return fmt.Sprintf(" (again after %v)", d)
	}
	return ""
}

// order does what the API does, beside what comes.
func (w *world) order(what string, do func() error) {
	w.last++
	id := w.last
	w.asked.Go(func() {
		if err := do(); err != nil {
			w.say(id, "%s: %v", what, err)
			return
		}
		w.say(id, "%s: done", what)
	})
}

// TestTranscripts plays testdata/*.txt against a real manager, in time of its own. Below
// an event stands what has become of requests and orders, which are numbered, and when:
//
//	loader [limit=N] [timeout=D] [waiting=N] [loads=N] [idle=D] [stay=D]
//	model NAME [bytes=N] [takes=D] [broken] [pin] [idle=S]    how it lies in the repository from now on
//	gone NAME                     it lies there no longer
//	request NAME [version=N] [for=D] [deadline=D] [by=CALLER]
//	load NAME, unload NAME        by the API
//	after D                       so much time passes
//	show NAME                     how it is, and how often its backend was asked to load it
//	numbers
//	stop
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) (text string) {
		bubble(t, func(t *testing.T) {
			var out bytes.Buffer
			p := &player{t: t, out: &out}
			text = transcript.Events(script, &out, p.event)
			if p.w != nil {
				p.w.close()
			}
		})
		return text
	})
}

type player struct {
	t   *testing.T
	w   *world
	out *bytes.Buffer
}

func (p *player) event(words []string) {
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	o := transcript.Options(words[1:])
	switch words[0] {
	case "loader":
		if p.w != nil {
			p.w.close()
		}
		p.w = open(p.t, Settings{
			MemoryLimit: int64(transcript.Number(o["limit"], 0)), LoadTimeout: transcript.Duration(o["timeout"]),
			MaxWaiting: transcript.Number(o["waiting"], 0), Loads: transcript.Number(o["loads"], 1),
			IdleTimeout: transcript.Duration(o["idle"]), MinResidency: cmp.Or(transcript.Duration(o["stay"]), -1),
		})
	case "model":
		p.w.put(name, o)
	case "gone":
		if err := os.RemoveAll(filepath.Join(p.w.top, name)); err != nil {
			p.t.Fatal(err)
		}
	case "request":
		p.w.request(name, o)
	case "load":
		p.w.order("load", func() error { return p.w.l.Load(context.Background(), lifecycle.Request{Name: name}) })
	case "unload":
		p.w.order("unload", func() error {
			return p.w.l.Unload(name, func() error { return p.w.life.UnloadAfter(context.Background(), name, false) })
		})
	case "after":
		time.Sleep(transcript.Duration(name))
	case "show":
		s := p.w.l.Standing(name)
		p.w.mu.Lock()
		fmt.Fprintf(p.out, "  %s, %s, %d waiting, %d loads\n", s.State, s.Why, s.Waiting, p.w.loads[name])
		p.w.mu.Unlock()
	case "numbers":
		n := p.w.l.Numbers()
		fmt.Fprintf(p.out, "  %d waits of %v together, %d timed out, %d loads, %d failed, %d evicted for memory\n",
			n.Waits, n.Waited, n.TimedOut, n.Loads, n.Failures, n.EvictedForMemory)
	case "stop":
		p.w.l.Close()
	default:
		p.t.Fatalf("unknown event %q", words)
	}
	synctest.Wait()
	p.flush()
}

func (p *player) flush() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	slices.SortFunc(p.w.said, func(a, b said) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	for _, s := range p.w.said {
		fmt.Fprintf(p.out, "  %v: %d %s\n", s.at, s.id, strings.ReplaceAll(s.text, p.w.top, "TOP"))
	}
	p.w.said = nil
}

// TestManyWaitForOneLoad: however many ask at once, the backend loads once, and all are
// served at the moment when it has.
func TestManyWaitForOneLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := open(t, Settings{})
		w.put("m", map[string]string{"takes": "3s"})
		for range 500 {
			w.request("m", nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.said) != 500 || w.loads["m"] != 1 {
			t.Errorf("%d of 500 are told, %d loads", len(w.said), w.loads["m"])
		}
		for _, s := range w.said {
			if s.at != 3*time.Second || s.text != "served" {
				t.Fatalf("at %v: %s", s.at, s.text)
			}
		}
		w.close()
	})
}

// TestUnloadedWhileItLoads: who unloads a model while it is loaded for a request has it out
// for good, whichever of the two the request meets when the load has ended.
func TestUnloadedWhileItLoads(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T) {
			w := open(t, Settings{MinResidency: -1})
			w.put("m", map[string]string{"takes": "1s"})
			w.request("m", nil)
			time.Sleep(time.Second / 2)
			w.order("unload", func() error {
				return w.l.Unload("m", func() error { return w.life.UnloadAfter(context.Background(), "m", false) })
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			const gone = "nothing to load: Request for unknown model: 'm' has no available versions"
			if len(w.said) != 2 || w.said[0].id == 1 && w.said[0].text != "served" && w.said[0].text != gone {
				t.Errorf("got %+v", w.said)
			}
			w.said = nil
			w.request("m", nil)
			synctest.Wait()
			if s := w.l.Standing("m"); s.State != residency.Out || s.Why != residency.TakenOut || w.loads["m"] != 1 || w.said[0].text != gone {
				t.Errorf("%s, %s, %d loads, then %+v", s.State, s.Why, w.loads["m"], w.said)
			}
			w.close()
		})
	}
}

// TestRequestsAreNotLost: models come and go while requests for all of them come at
// random, of which some give up; each is served or told, and in the end nothing is left.
func TestRequestsAreNotLost(t *testing.T) {
	for seed := range 8 {
		bubble(t, func(t *testing.T) {
			w := open(t, Settings{MemoryLimit: 300, Loads: 1 + seed%3, MinResidency: -1})
			names := []string{"a", "b", "c", "d", "e", "f"}
			for i, name := range names {
				w.put(name, map[string]string{"bytes": fmt.Sprint(60 + 20*i), "takes": fmt.Sprint(10*i, "ms")})
			}
			for i := range 300 {
				n := (i*i*7 + i*seed + seed) % 997
				o := map[string]string{"for": fmt.Sprint(n%40, "ms")}
				if n%5 == 0 {
					o["deadline"] = fmt.Sprint(1+n%30, "ms")
				}
				w.request(names[n%len(names)], o)
				if n%11 == 0 {
					name := names[n%len(names)]
					w.order("load", func() error { return w.l.Load(context.Background(), lifecycle.Request{Name: name}) })
				}
				time.Sleep(time.Duration(n%15) * time.Millisecond)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if len(w.said) != w.last {
				t.Errorf("seed %d: %d of %d are told", seed, len(w.said), w.last)
			}
			for _, s := range w.said {
				if s.text != "served" && s.text != "load: done" && !strings.HasPrefix(s.text, "Cancelled: ") {
					t.Errorf("seed %d: %d: %s", seed, s.id, s.text)
				}
			}
			if n := w.l.Numbers(); n.EvictedForMemory == 0 || n.Waiting != 0 || n.Bytes > 300 {
				t.Errorf("seed %d: %+v", seed, n)
			}
			w.close()
		})
	}
}
