package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/plot"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// pageHead is what the page begins with; the style is in light and dark.
//
//go:embed head.html
var pageHead string

type searchView struct {
	Models, Goal, Verdict, About string
	Winner                       bool
	Patches                      []patchView
	Charts                       []string
	Effects                      []rowView
	Head                         []string
	Rows                         []rowView
}

type patchView struct{ Model, Text string }

type rowView struct {
	Class string
	Cells []string
}

// writer writes HTML. What is no markup goes through text.
type writer struct{ b strings.Builder }

func (w *writer) raw(markup string) { w.b.WriteString(markup) }

// element writes a text in an element.
func (w *writer) element(tag, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	w.raw("<" + tag + class + ">" + html.EscapeString(text) + "</" + tag + ">\n")
}

func (w *writer) row(tag, class string, cells []string) {
	w.raw("<tr class=\"" + class + "\">")
	for _, c := range cells {
		w.raw("<" + tag + ">" + html.EscapeString(c) + "</" + tag + ">")
	}
	w.raw("</tr>\n")
}

func (w *writer) table(caption string, head []string, rows []rowView) {
	w.raw(`<div class="wide"><table><caption>` + html.EscapeString(caption) + "</caption>\n<thead>")
	w.row("th", "head", head)
	w.raw("</thead>\n<tbody>\n")
	for _, r := range rows {
		w.row("td", r.Class, r.Cells)
	}
	w.raw("</tbody></table></div>\n")
}

// HTML writes the outcomes as one page, which asks nobody for anything.
func HTML(out io.Writer, all []Outcome, version string) error {
	w := &writer{}
	title := "Tuned"
	var views []searchView
	for i := range all {
		views = append(views, all[i].view())
	}
	if len(views) == 1 {
		title = views[0].Models + ", tuned"
	}
	w.raw(strings.NewReplacer("TITLE", html.EscapeString(title), "/*PLOTS*/", plot.Style).Replace(pageHead))
	for i := range views {
		views[i].write(w, version)
	}
	w.raw("</body></html>\n")
	_, err := io.WriteString(out, w.b.String())
	return err
}

func (v *searchView) write(w *writer, version string) {
	w.element("h1", "", v.Models)
	w.element("p", "faint", v.Goal+". "+v.About+" neso "+version+".")
	class := "warn"
	if v.Winner {
		class = "good"
	}
	w.element("p", class, v.Verdict)
	if len(v.Patches) > 0 {
		w.element("h2", "", "The best configuration")
	}
	for _, p := range v.Patches {
		w.element("h3", "", p.Model)
		w.element("pre", "", p.Text)
	}
	w.raw("<h2>Plots</h2>\n<div class=\"charts\">\n")
	for _, c := range v.Charts {
		w.raw("<figure>" + c + "</figure>\n")
	}
	w.raw("</div>\n")
	if len(v.Effects) > 0 {
		w.element("h2", "", "What each knob did")
		w.table("The change of the goal against the value as it is, where all else stood the same",
			[]string{"knob", "value", "configurations", "failed or beyond the limits", "change", "pairs"}, v.Effects)
	}
	w.element("h2", "", "All that was measured")
	w.table("± is the standard deviation of windows, as a share of the mean; of the load, x is the batch size", v.Head, v.Rows)
}

func (o *Outcome) view() searchView {
	names := slices.Sorted(maps.Keys(o.Goal))
	m := o.State.Machine
	v := searchView{
		Models: measure.Plain(strings.Join(names, ", ")), Goal: o.State.Goal.Text, Verdict: o.Verdict.Text, Winner: o.Verdict.Winner,
		About: fmt.Sprintf("%d configurations in %d servers, search %s, on %s with %d processors.", len(o.Ranked), len(o.State.Runs),
			o.State.Goal.Search, m.OS, m.Processors),
	}
	for _, c := range o.Configs {
		if c.Patch != "" {
			v.Patches = append(v.Patches, patchView{measure.Plain(c.Name), c.Patch})
		}
	}
	for _, name := range names {
		for _, c := range o.charts(name, len(names) > 1) {
			v.Charts = append(v.Charts, plot.Inline(&c))
		}
	}
	for _, e := range o.Effects() {
		v.Effects = append(v.Effects, rowView{Cells: e.row()})
	}
	v.Head, v.Rows = o.rows(names)
	return v
}

func (e *Effect) row() []string {
	value := e.Value
	if e.AsItIs {
		value += " (as it is)"
	}
	gain := ""
	if e.Pairs > 0 {
		gain = fmt.Sprintf("%+.1f %%", 100*e.Gain.Mean)
		if e.Pairs > 1 {
			gain += fmt.Sprintf(" ± %.1f", 100*e.Gain.Error())
		}
	}
	return []string{measure.Plain(e.Knob), measure.Plain(value), strconv.Itoa(e.Measured), strconv.Itoa(e.Failed), gain, strconv.Itoa(e.Pairs)}
}

// mostLines bounds the configurations that a chart shows: plot has so many colors.
const mostLines = 4

// charts are the front, and how the best do under more and more load.
func (o *Outcome) charts(model string, several bool) []plot.Chart {
	of := ""
	if several {
		of = " of " + measure.Plain(model)
	}
	front := plot.Series{Name: "front", Dots: true}
	for _, at := range o.Goal.Front(o.Ranked, model, trial.LatencyP99) {
		front.Points = append(front.Points, point(&at.Level, model))
	}
	slices.SortFunc(front.Points, func(a, b plot.Point) int {
		if a.X < b.X {
			return -1
		}
		return 1
	})
	c := plot.Chart{
		Title: "Throughput" + of + " over p99 latency: the front, and the best under more and more load",
		X:     plot.Axis{Label: "p99 latency, ms"}, Y: plot.Axis{Label: "inferences a second"}, Series: []plot.Series{front},
	}
	for i := range o.Ranked {
		r := &o.Ranked[i]
		if r.Best == nil || len(c.Series) > mostLines && r.Key != "" {
			continue
		}
		line := plot.Series{Name: "#" + strconv.Itoa(r.First), Dots: true}
		if r.Key == "" {
			line.Name = "as it is"
		}
		for _, l := range r.All() {
			if l.Failure == "" {
				line.Points = append(line.Points, point(&l, model))
			}
		}
		c.Series = append(c.Series, line)
	}
	return append([]plot.Chart{c}, o.bars(model, of)...)
}

func point(l *trial.Level, model string) plot.Point {
	n := l.Models[model]
	return plot.Point{X: n.Latency["p99"].Mean, Y: n.Throughput.Mean}
}

// bars shows the throughput of every configuration at its best load, in their order.
func (o *Outcome) bars(model, of string) []plot.Chart {
	c := plot.Chart{
		Title: "Throughput" + of + " of all configurations, the best first", X: plot.Axis{Label: "place"},
		Y: plot.Axis{Label: "inferences a second"}, NoLegend: true,
	}
	for i := range o.Ranked {
		if b := o.Ranked[i].Best; b != nil {
			x := float64(i + 1)
			c.Bars = append(c.Bars, plot.Bar{Low: x - 0.4, High: x + 0.4, Y: b.Models[model].Throughput.Mean})
		}
	}
	if len(c.Bars) < 2 {
		return nil
	}
	return []plot.Chart{c}
}

// rows are all runs, in the order in which they were measured.
func (o *Outcome) rows(names []string) (head []string, rows []rowView) {
	head = []string{
		"#", "configuration", "load", "model", "infer/s", "±", "mean ms", "p50", "p90", "p95", "p99", "±", "CPU µs/infer", "batch", "MB",
		"requests", "remarks",
	}
	for i := range o.State.Runs {
		r := &o.State.Runs[i]
		text := o.name(r.Variant.Key(), r.Values)
		if r.Failure != "" && len(r.Levels) == 0 {
			rows = append(rows, failed(r.ID, text, "", r.Failure))
		}
		for k := range r.Levels {
			l := &r.Levels[k]
			if l.Failure != "" {
				rows = append(rows, failed(r.ID, text, load(l.Load), l.Failure))
				continue
			}
			for _, m := range names {
				rows = append(rows, o.rowOf(r, l, m, text))
			}
		}
	}
	return head, rows
}

func failed(id int, text, load, why string) rowView {
	cells := make([]string, 17)
	cells[0], cells[1], cells[2], cells[16] = strconv.Itoa(id), text, load, "failed: "+measure.Plain(why)
	return rowView{"failed", cells}
}

func (o *Outcome) rowOf(r *trial.Run, l *trial.Level, model, text string) rowView {
	n := l.Models[model]
	cells := []string{
		strconv.Itoa(r.ID), text, load(l.Load), measure.Plain(model), fmt.Sprintf("%.4g", n.Throughput.Mean), percent(n.Throughput),
	}
	for _, p := range []string{"avg", "p50", "p90", "p95", "p99"} {
		cells = append(cells, fmt.Sprintf("%.3g", n.Latency[p].Mean))
	}
	cells = append(cells, percent(n.Latency["p99"]))
	memory, batch := "", ""
	if l.Memory > 0 {
		memory = fmt.Sprintf("%.0f", l.Memory/1e6)
	}
	if n.BatchLen > 0 {
		batch = fmt.Sprintf("%.1f", n.BatchLen)
	}
	var remarks []string
	if r.Round > 0 {
		remarks = append(remarks, fmt.Sprintf("once more (%d)", r.Round))
	}
	if r.Effort > 1 {
		remarks = append(remarks, fmt.Sprintf("%d times as long", r.Effort))
	}
	if !n.Stable {
		remarks = append(remarks, "unstable")
	}
	if o.Goal.Score(l).Excess > 0 {
		remarks = append(remarks, "misses the limits")
	}
	if r.Failure != "" {
		remarks = append(remarks, "the server ended: "+measure.Plain(r.Failure))
	}
	for _, note := range n.Notes {
		remarks = append(remarks, measure.Plain(note))
	}
	cells = append(cells, cpu(n), batch, memory, strconv.FormatInt(n.Requests, 10), strings.Join(remarks, "; "))
	class := ""
	if o.Verdict.Best != nil && o.Verdict.Best.Key == r.Variant.Key() && o.Verdict.Best.Best.Load == l.Load {
		class = "best"
	}
	return rowView{class, cells}
}
