package report

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/plot"
)

// pageStyle is that of the report, in light and dark.
const pageStyle = `:root{color-scheme:light dark;--back:#fff;--ink:#1f2328;--faint:#59636e;--line:#d9dee3;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--ink:#e6edf3;--faint:#9aa5b1;--line:#30363d;--warn:#d4a72c}}
body{background:var(--back);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif;max-width:1500px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.3rem 0;overflow-wrap:anywhere}.faint{color:var(--faint)}.warn{color:var(--warn)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--faint)}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:1rem}
svg{width:100%;height:auto}
`

// page writes HTML. What is no markup goes through text.
type page struct{ b strings.Builder }

// text escapes a text, which may be the server's: without what moves a cursor or
// turns the direction of the text, and without markup.
func text(s string) string { return html.EscapeString(measure.Plain(s)) }

func (p *page) raw(markup string) { p.b.WriteString(markup) }

// row writes a row of a table.
func (p *page) row(tag string, cells ...string) {
	p.raw("<tr>")
	for _, c := range cells {
		p.raw("<" + tag + ">" + text(c) + "</" + tag + ">")
	}
	p.raw("</tr>\n")
}

// table writes a table whose first row is its heading.
func (p *page) table(caption string, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	p.raw(`<div class="wide"><table><caption>` + text(caption) + "</caption>\n<thead>")
	p.row("th", rows[0]...)
	p.raw("</thead>\n<tbody>\n")
	for _, r := range rows[1:] {
		p.row("td", r...)
	}
	p.raw("</tbody></table></div>\n")
}

// HTML writes the results as one page with plots, which asks nobody for anything.
func (r *Run) HTML(out io.Writer) error {
	p := &page{}
	p.raw(`<!doctype html>` + "\n" + `<html lang="en"><head><meta charset="utf-8">` + "\n" +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` + "\n" +
		`<meta name="viewport" content="width=device-width,initial-scale=1">` + "\n" +
		"<title>" + text(r.Options.Model) + " under load</title>\n<style>\n" +
		pageStyle + plot.Style + "</style></head>\n<body>\n<h1>" + text(r.Options.Model) + " under load</h1>\n")
	p.raw(`<p class="faint">` + text(r.about()) + "</p>\n")
	for i := range r.Results {
		r.warnings(p, &r.Results[i])
	}
	p.raw("<h2>Results</h2>\n")
	if len(r.Results) == 0 {
		p.raw("<p>Nothing was measured.</p>\n")
	}
	p.table("Latencies in microseconds", r.resultRows())
	p.raw("<h2>Plots</h2>\n<div class=\"charts\">\n")
	for _, c := range r.Charts() {
		p.raw("<figure>" + plot.Inline(&c) + "</figure>\n")
	}
	p.raw("</div>\n")
	if n := len(r.Results); n > mostHistograms {
		p.raw(fmt.Sprintf("<p class=\"faint\">Of the latencies, those of the first %d of %d loads are shown.</p>\n", mostHistograms, n))
	}
	r.serverTables(p)
	r.errorTable(p)
	p.raw("</body></html>\n")
	_, err := io.WriteString(out, p.b.String())
	return err
}

// about is how the measurement was made.
func (r *Run) about() string {
	o := r.Options
	where := strings.ToUpper(o.Protocol) + " at " + o.URL
	switch o.Kind {
	case "triton_c_api":
		where = "a server in the generator's own process"
	case "openai":
		where += "/" + strings.TrimPrefix(o.Endpoint, "/")
	}
	shared := ""
	if o.SharedMemory != "none" {
		shared = ", tensors in shared memory"
	}
	return fmt.Sprintf("%s, batch size %d%s. %s, neso perf %s.", where, o.Batch, shared,
		r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Version)
}

func (r *Run) warnings(p *page, x *Result) {
	var all []string
	if s := x.remark(); s != "" {
		all = append(all, strings.Trim(s, " ()"))
	}
	for _, s := range append(all, x.Notes...) {
		p.raw(`<p class="warn">` + text(r.loadLabel()+" "+sixDigits(x.Load)+": "+s) + "</p>\n")
	}
}

func (r *Run) resultRows() [][]string {
	rows := [][]string{{
		r.loadLabel(), "inferences/s", "requests", "failed", "mean", "std", "p50", "p90", "p95", "p99", "p99.9", "max",
		"client CPU", "server CPU",
	}}
	for i := range r.Results {
		x := &r.Results[i]
		e := r.entry(x)
		row := []string{sixDigits(x.Load), sixDigits(e.Inferences), fmt.Sprint(e.Requests), fmt.Sprint(e.Failed)}
		l := e.Latency
		for _, v := range []float64{l.Mean, l.Deviation, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max} {
			row = append(row, fmt.Sprintf("%.0f", v))
		}
		for _, v := range []*float64{e.ClientCPU, e.ServerCPU} {
			if v == nil {
				row = append(row, "")
			} else {
				row = append(row, fmt.Sprintf("%.1f", *v))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Run) serverTables(p *page) {
	rows := [][]string{{
		r.loadLabel(), "model", "requests", "executions", "request", "queue", "input", "compute", "output", "cache hits", "cache misses",
	}}
	for i := range r.Results {
		for _, s := range r.entry(&r.Results[i]).Server {
			row := []string{sixDigits(r.Results[i].Load), s.Model + " " + s.Version}
			for _, n := range []int64{s.Requests, s.Executions, s.Latency, s.Queue, s.Input, s.Infer, s.Output, s.Hits, s.Misses} {
				row = append(row, fmt.Sprint(n))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 1 {
		p.raw("<h2>Server</h2>\n")
	}
	p.table("Mean times of a request in the server, in microseconds", rows)
}

func (r *Run) errorTable(p *page) {
	rows := [][]string{{r.loadLabel(), "failed", "kind", "text"}}
	for i := range r.Results {
		for _, e := range r.Results[i].Window.Errors {
			rows = append(rows, []string{sixDigits(r.Results[i].Load), fmt.Sprint(e.Count), e.Kind, e.Text})
		}
	}
	if len(rows) > 1 {
		p.raw("<h2>Failures</h2>\n")
	}
	p.table("By their cause", rows)
}
