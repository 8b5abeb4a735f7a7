// Package report owns what a search says: the text on the console, one page with pictures,
// Model Analyzer's CSV files, and the best configuration as a patch. Open report.go
// first, then html.go and csv.go.
package report

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/overlay"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// Page is the name of the page.
const Page = "report.html"

// Outcome is what came of a search.
type Outcome struct {
	State   *checkpoint.State
	Goal    trial.Goal
	Ranked  []trial.Ranked
	Verdict trial.Verdict
	// Configs are those of the best.
	Configs []Config
}

// Config is the best configuration of a model.
type Config struct {
	checkpoint.Model
	Was   string
	Now   []byte
	Patch string // "" if it stays as it is
}

// Of makes the outcome of what was measured.
func Of(s *checkpoint.State) (*Outcome, error) {
	o := &Outcome{State: s, Goal: s.Goal.Trial()}
	o.Ranked = o.Goal.Rank(trial.Results(s.Runs))
	o.Verdict = o.Goal.Judge(o.Ranked)
	if o.Verdict.Best == nil {
		return o, nil
	}
	for _, m := range s.Models {
		c := Config{Model: m, Was: m.Config, Now: []byte(m.Config)}
		if changes := o.Verdict.Best.Variant[m.Name]; len(changes) > 0 {
			var err error
			if c.Now, err = edited(&m, changes); err != nil {
				return nil, fmt.Errorf("the best configuration of the model %s: %w", m.Name, err)
			}
			var was []byte
			if !m.Missing {
				was = []byte(m.Config)
			}
			c.Patch = overlay.Diff(path.Join(m.Name, overlay.Filename), was, c.Now)
		}
		o.Configs = append(o.Configs, c)
	}
	return o, nil
}

// name is how a configuration is called: by what its knobs stand at.
func (o *Outcome) name(key string, values map[string]string) string {
	if key == "" {
		return "as it is"
	}
	var base map[string]string
	for i := range o.Ranked {
		if r := &o.Ranked[i]; r.Key == "" {
			base = r.Values
		}
	}
	return measure.Plain(trial.Describe(values, base))
}

// mostShown bounds the configurations that the console shows.
const mostShown = 5

// Text writes what came of it for people who read the console.
func (o *Outcome) Text(out io.Writer) {
	names := slices.Sorted(maps.Keys(o.Goal))
	fmt.Fprintf(out, "\n%s: %s\n", measure.Plain(strings.Join(names, ", ")), o.State.Goal.Text)
	var rows [][]string
	head := []string{"", "load"}
	for _, n := range names {
		prefix := ""
		if len(names) > 1 {
			prefix = n + " "
		}
		head = append(head, prefix+"infer/s", "±", "p99 ms", "±", "CPU µs")
	}
	rows = append(rows, append(head, "MB", "servers", "configuration"))
	shown := 0
	for i := range o.Ranked {
		r := &o.Ranked[i]
		if shown >= mostShown && r.Key != "" {
			continue
		}
		shown++
		rows = append(rows, o.row(shown, r, names))
	}
	table(out, rows)
	if n := len(o.Ranked); n > shown {
		fmt.Fprintf(out, "and %d configurations more, see the report\n", n-shown)
	}
	fmt.Fprintf(out, "\n%s\n", o.Verdict.Text)
	for _, c := range o.Configs {
		if c.Patch != "" {
			fmt.Fprintf(out, "\n%s", c.Patch)
		}
	}
}

func (o *Outcome) row(n int, r *trial.Ranked, names []string) []string {
	row := []string{fmt.Sprint(n)}
	if r.Best == nil {
		row = append(row, "failed")
		for range names {
			row = append(row, "", "", "", "", "")
		}
		return append(row, "", "", o.name(r.Key, r.Values)+": "+measure.Plain(Failure(&r.Result)))
	}
	row = append(row, load(r.Best.Load))
	for _, m := range names {
		number := r.Best.Models[m]
		p99 := number.Latency["p99"]
		row = append(row, fmt.Sprintf("%.4g", number.Throughput.Mean), percent(number.Throughput), fmt.Sprintf("%.3g", p99.Mean),
			percent(p99), cpu(number))
	}
	text := o.name(r.Key, r.Values)
	if r.Score.Excess > 0 {
		text += " (misses the limits)"
	}
	return append(row, fmt.Sprintf("%.0f", r.Best.Memory/1e6), fmt.Sprint(r.Runs), text)
}

// Failure is why nothing was measured, or not all.
func Failure(r *trial.Result) string {
	if r.Failure != "" {
		return r.Failure
	}
	for i := range r.Levels {
		if f := r.Levels[i].Failure; f != "" {
			return f
		}
	}
	return ""
}

// cpu is the server's time of an inference, "" where it could not be seen.
func cpu(n *trial.Number) string {
	if n.CPU.N == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", n.CPU.Mean)
}

func percent(s trial.Stat) string { return fmt.Sprintf("%.1f %%", 100*s.Spread()) }

func load(l trial.Load) string {
	text := fmt.Sprintf("%d", l.Concurrency)
	if l.Rate > 0 {
		text = fmt.Sprintf("%g/s", l.Rate)
	}
	if l.Batch > 1 {
		text += fmt.Sprintf(" x %d", l.Batch)
	}
	return text
}

// table writes rows in columns, of which the last is as wide as it is.
func table(out io.Writer, rows [][]string) {
	widths := map[int]int{}
	for _, r := range rows {
		for i, c := range r[:len(r)-1] {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	for _, r := range rows {
		for i, c := range r {
			if i == len(r)-1 {
				fmt.Fprintln(out, c)
				break
			}
			fmt.Fprintf(out, "%*s  ", widths[i], c)
		}
	}
}
