package dashboard

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/recent"
)

// frameTimeout bounds how long a viewer may take for a frame.
const frameTimeout = 10 * time.Second

// reader is who reads a feed: what it may see, and what it has seen.
type reader struct {
	caller   *auth.Caller
	all      bool // models
	log      bool
	failures uint64
	slowest  uint64
	line     uint64
}

// feed answers with a line of JSON a second: what has changed since the one before.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) {
	caller, ok := s.o.API.Admit(w, r, auth.Observe)
	if !ok {
		return
	}
	v := s.sampler.join()
	if v == nil {
		w.Header().Set("Retry-After", "5")
		s.refuse(w, http.StatusServiceUnavailable, "the dashboard is looked at "+strconv.Itoa(mostViewers)+
			" times, which is the most, or the server is about to end")
		return
	}
	defer s.sampler.leave(v)
	to := &reader{caller: caller, all: caller.May(auth.Metrics, "") == nil}
	to.log = to.all && s.mayUse(r) && s.o.Log != nil
	h := w.Header()
	protect(h)
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy is not to collect it
	c := http.NewResponseController(w)
	var b bytes.Buffer
	for {
		select {
		case <-r.Context().Done():
			return
		case f, ok := <-v.frames:
			if !ok {
				return
			}
			b.Reset()
			end := caller.May(auth.Observe, "") // the key may have gone
			if end != nil {
				f = &frame{at: f.at, server: []byte("null")}
			}
			s.encode(&b, f, to, end != nil)
			_ = c.SetWriteDeadline(time.Now().Add(frameTimeout)) // tests have writers without
			if _, err := w.Write(b.Bytes()); err != nil || c.Flush() != nil || end != nil {
				return
			}
		}
	}
}

// encode writes a frame as a line, with what the reader may see.
func (s *Server) encode(b *bytes.Buffer, f *frame, to *reader, end bool) {
	b.WriteString(`{"at":`)
	b.WriteString(strconv.FormatInt(f.at.UnixMilli(), 10))
	if end {
		b.WriteString(`,"end":true}` + "\n")
		return
	}
	if f.whole {
		b.WriteString(`,"whole":true`)
	}
	b.WriteString(`,"server":`)
	b.Write(f.server)
	b.WriteString(`,"models":[`)
	first := true
	for _, p := range f.pieces {
		if to.all || to.caller.Sees(p.model) {
			if !first {
				b.WriteByte(',')
			}
			b.Write(p.json)
			first = false
		}
	}
	b.WriteByte(']')
	var missing []gone
	for _, g := range f.gone {
		if to.all || to.caller.Sees(g.Name) {
			missing = append(missing, g)
		}
	}
	field(b, "gone", missing)
	failures, skipped := s.o.Engine.Recent().Failures(to.failures)
	if len(failures) > 0 {
		to.failures = failures[len(failures)-1].Number
	}
	field(b, "failures", shownTo(to, failures))
	if to.all {
		field(b, "skipped", skipped)
	}
	slow := s.o.Engine.Recent().Slow()
	newest := to.slowest
	for i := range slow {
		newest = max(newest, slow[i].Number)
	}
	if newest > to.slowest || f.whole {
		to.slowest = newest
		field(b, "slow", shownTo(to, slow))
	}
	if to.log {
		lines := s.o.Log.Tail(to.line)
		if len(lines) > 0 {
			to.line = lines[len(lines)-1].Number
		}
		field(b, "log", shownLines(lines))
	} else if f.whole {
		b.WriteString(`,"log":null`)
	}
	b.WriteString("}\n")
}

// field adds one that can always be encoded.
func field(b *bytes.Buffer, name string, v any) {
	if text, err := json.Marshal(v); err == nil && !bytes.Equal(text, []byte("null")) {
		b.WriteString(`,"` + name + `":`)
		b.Write(text)
	}
}

// request is a recent.Request on its way to the page; times in milliseconds.
type request struct {
	Number   uint64     `json:"number"`
	Model    string     `json:"model"`
	Version  string     `json:"version"`
	ID       string     `json:"id,omitempty"`
	Internal bool       `json:"internal,omitempty"`
	At       int64      `json:"at"`
	Took     float64    `json:"took"`
	Phases   [6]float64 `json:"phases"`
	Composed bool       `json:"composed,omitempty"` // phases are sums over the steps
	Steps    []step     `json:"steps,omitempty"`
	Left     int        `json:"left,omitempty"` // steps beyond those
	Error    string     `json:"error,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

func shownTo(to *reader, all []recent.Request) []request {
	var shown []request
	for i := range all {
		r := &all[i]
		if !to.all && !to.caller.Sees(r.Model) {
			continue
		}
		e := request{
			Number: r.Number, Model: r.Model, Version: strconv.FormatInt(r.Version, 10), ID: r.ID, Internal: r.Internal,
			At: r.At.UnixMilli(), Took: milliseconds(r.Took), Composed: r.Phases.Ensemble, Error: r.Error, Reason: r.Reason,
			Steps: shownSteps(to, r.Steps), Left: r.Left,
		}
		p := &r.Phases
		for i, d := range [...]time.Duration{p.Prepare, p.Queue, p.Input, p.Infer, p.Output, p.Respond} {
			e.Phases[i] = milliseconds(d)
		}
		shown = append(shown, e)
	}
	return shown
}

// step is a recent.Step on its way to the page.
type step struct {
	Model   string     `json:"model"` // empty where the reader's key does not see it
	Version string     `json:"version"`
	From    float64    `json:"from"`
	Took    float64    `json:"took"`
	Phases  [4]float64 `json:"phases"`
	Failed  bool       `json:"failed,omitempty"`
	Steps   []step     `json:"steps,omitempty"`
	Left    int        `json:"left,omitempty"`
}

func shownSteps(to *reader, all []recent.Step) []step {
	shown := make([]step, len(all))
	for i := range all {
		s := &all[i]
		shown[i] = step{From: milliseconds(s.From), Took: milliseconds(s.Took), Failed: s.Failed, Steps: shownSteps(to, s.Steps), Left: s.Left}
		if to.all || to.caller.Sees(s.Model) {
			shown[i].Model, shown[i].Version = s.Model, strconv.FormatInt(s.Version, 10)
		}
		for j, d := range s.Phases {
			shown[i].Phases[j] = milliseconds(d)
		}
	}
	return shown
}

func milliseconds(d time.Duration) float64 { return rounded(float64(d) / 1e6) }

// logLine is a logging.Line on its way to the page.
type logLine struct {
	Number uint64 `json:"number"`
	At     int64  `json:"at"`
	Level  string `json:"level"`
	Text   string `json:"text"`
}

func shownLines(lines []logging.Line) []logLine {
	shown := make([]logLine, len(lines))
	for i, l := range lines {
		level := "verbose"
		switch {
		case l.Level >= slog.LevelError:
			level = "error"
		case l.Level >= slog.LevelWarn:
			level = "warning"
		case l.Level >= slog.LevelInfo:
			level = "info"
		}
		shown[i] = logLine{l.Number, l.At.UnixMilli(), level, l.Text}
	}
	return shown
}
