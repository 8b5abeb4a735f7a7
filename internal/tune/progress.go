package tune

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// progress says how the search goes: a line for each server, and on a terminal one that
// is drawn anew.
type progress struct {
	out      io.Writer
	terminal bool
	quiet    bool
	drawn    bool
	// effort has been measured in so many seconds, of which estimates are made; left is
	// still to come.
	effort, left, all int
	seconds           float64
	began             time.Time
	current           string
	base              map[string]string // what the knobs stand at
}

func newProgress(env Env, quiet bool, runs []trial.Run) *progress {
	p := &progress{out: env.Stderr, terminal: env.Terminal && !quiet, quiet: quiet}
	for _, r := range runs {
		p.effort += r.Effort
		p.seconds += r.Seconds
	}
	return p
}

func (p *progress) begin(models []ModelPlan, all []knobs.Knob, count int, mode string) {
	if p.quiet {
		return
	}
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	fmt.Fprintf(p.out, "tuning %s: %d configurations, search %s\n", measure.Plain(strings.Join(names, ", ")), count, mode)
	for _, k := range all {
		var labels []string
		for i, v := range k.Values {
			if l := v.Label; i == k.Start {
				labels = append(labels, "["+l+"]")
			} else {
				labels = append(labels, l)
			}
		}
		fmt.Fprintf(p.out, "  %s %s: %s\n", measure.Plain(k.Model), measure.Plain(k.Name), measure.Plain(strings.Join(labels, " ")))
	}
	if p.effort > 0 {
		fmt.Fprintf(p.out, "  going on with what was measured before\n")
	}
}

// plan is told how much effort is to come at most.
func (p *progress) plan(effort int) {
	p.left = effort
	p.all = max(p.all, effort)
}

func (p *progress) start(r *trial.Run) {
	p.began = time.Now()
	p.current = fmt.Sprintf("#%d %s", r.ID, p.values(r))
	p.draw("starting")
}

func (p *progress) values(r *trial.Run) string {
	if len(r.Variant) == 0 {
		return "as it is"
	}
	return measure.Plain(trial.Describe(r.Values, p.base))
}

func (p *progress) level(load trial.Load) { p.draw(loadText(load)) }

func loadText(l trial.Load) string {
	text := fmt.Sprintf("concurrency %d", l.Concurrency)
	if l.Rate > 0 {
		text = fmt.Sprintf("%g requests/s", l.Rate)
	}
	if l.Batch > 1 {
		text += fmt.Sprintf(", batch %d", l.Batch)
	}
	return text
}

// remaining says how long it still takes, by what it took until now.
func (p *progress) remaining() string {
	if p.effort == 0 || p.left == 0 {
		return ""
	}
	d := time.Duration(p.seconds / float64(p.effort) * float64(p.left) * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("at most about %d s left", int(d.Seconds())+1)
	case d < time.Hour:
		return fmt.Sprintf("at most about %d min left", int(d.Minutes())+1)
	}
	return fmt.Sprintf("at most about %.1f h left", d.Hours())
}

const barWidth = 20

func (p *progress) draw(what string) {
	if !p.terminal {
		return
	}
	done := 0
	if p.all > 0 {
		done = min(max(barWidth*(p.all-p.left)/p.all, 0), barWidth)
	}
	bar := strings.Repeat("━", done) + strings.Repeat("·", barWidth-done)
	text := strings.Join(slices.DeleteFunc([]string{p.remaining(), p.current, what}, func(s string) bool { return s == "" }), "  ")
	fmt.Fprintf(p.out, "\r\x1b[K%s %s", bar, clip(text))
	p.drawn = true
}

// clip keeps a line on one line of most terminals.
func clip(text string) string {
	if r := []rune(text); len(r) > 96 {
		return string(r[:95]) + "…"
	}
	return text
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// done is told of a server that was measured.
func (p *progress) done(r *trial.Run, g trial.Goal) {
	p.effort += r.Effort
	p.seconds += r.Seconds
	if p.quiet {
		return
	}
	p.clear()
	text := fmt.Sprintf("#%d %s", r.ID, p.values(r))
	if r.Round > 0 {
		text += fmt.Sprintf(" (once more, %d)", r.Round)
	}
	if best, score := g.Best(r.Levels); best != nil {
		text += ": " + summary(best, g)
		if score.Excess > 0 {
			text += ", misses the limits"
		}
	} else if r.Failure == "" && len(r.Levels) > 0 {
		text += ": failed: " + r.Levels[0].Failure
	}
	if r.Failure != "" {
		text += ": failed: " + measure.Plain(r.Failure)
	}
	if left := p.remaining(); left != "" && !p.terminal {
		text += " (" + left + ")"
	}
	fmt.Fprintln(p.out, text)
}

// summary is what a level does, in a few words.
func summary(l *trial.Level, g trial.Goal) string {
	var parts []string
	for _, model := range slices.Sorted(maps.Keys(g)) {
		n := l.Models[model]
		if n == nil {
			continue
		}
		p99 := n.Latency["p99"]
		text := fmt.Sprintf("%.4g infer/s ±%.1f %%, p99 %.3g ms", n.Throughput.Mean, 100*n.Throughput.Spread(), p99.Mean)
		if n.CPU.N > 0 {
			text += fmt.Sprintf(", %.3g µs CPU", n.CPU.Mean)
		}
		if len(g) > 1 {
			text = measure.Plain(model) + " " + text
		}
		if !n.Stable {
			text += " (unstable)"
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "; ") + " at " + loadText(l.Load)
	if l.Memory > 0 {
		text += fmt.Sprintf(", %.0f MB", l.Memory/1e6)
	}
	return text
}
