package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/target"
)

// CSV writes the results with perf_analyzer's columns, by rising throughput. Times
// are whole microseconds.
func (r *Run) CSV(out io.Writer) error {
	rows := [][]string{r.header()}
	results := slices.Clone(r.Results)
	slices.SortStableFunc(results, func(a, b Result) int { return cmp.Compare(a.Window.Rate(), b.Window.Rate()) })
	for i := range results {
		rows = append(rows, r.row(&results[i]))
	}
	return writeRows(out, rows)
}

func writeRows(out io.Writer, rows [][]string) error {
	w := csv.NewWriter(out)
	if err := w.WriteAll(rows); err != nil { // it flushes
		return err
	}
	return w.Error()
}

func (r *Run) withServer() bool { return r.Model != nil && r.Model.Statistics }

func (r *Run) loadName() string {
	if r.Options.Mode == options.Closed || r.Options.Mode == options.Periodic {
		return "Concurrency"
	}
	return "Request Rate"
}

func (r *Run) header() []string {
	h := []string{r.loadName(), "Inferences/Second"}
	if r.decoupled() {
		h = append(h, "Response Throughput")
	}
	h = append(h, "Client Send")
	if r.withServer() {
		h = append(h, r.phaseNames()...)
	}
	h = append(h, "Client Recv")
	for _, p := range r.percentiles() {
		h = append(h, fmt.Sprintf("p%d latency", p))
	}
	if !r.Options.VerboseCSV {
		return h
	}
	if r.Options.Percentile == -1 {
		h = append(h, "Avg latency")
	}
	h = append(h, "request/response", "response wait")
	if r.Options.CollectMetrics {
		h = append(h, "Avg GPU Utilization", "Avg GPU Power Usage", "Max GPU Memory Usage", "Total GPU Memory")
	}
	return h
}

func (r *Run) phaseNames() []string {
	names := []string{
		"Network+Server Send/Recv", "Server Queue", "Server Compute Input", "Server Compute Infer", "Server Compute Output",
	}
	if r.Model.Cache {
		names = append(names, "Server Cache Hit", "Server Cache Miss")
	}
	return names
}

func number[T int | int64](n T) string { return fmt.Sprint(n) }

func (r *Run) row(x *Result) []string {
	w := x.Window
	t := timesOf(w)
	row := []string{sixDigits(x.Load), sixDigits(r.Inferences(x))}
	if r.decoupled() {
		row = append(row, sixDigits(float64(w.Responses)/w.Seconds()))
	}
	row = append(row, number(t.send))
	if r.withServer() {
		c := &target.Counters{}
		if len(w.Server) > 0 {
			c = &w.Server[0]
		}
		row = append(row, r.phaseCells(c, max(0, us(w.Mean())-t.send-t.receive))...)
	}
	row = append(row, number(t.receive))
	for _, p := range r.percentiles() {
		row = append(row, number(us(w.Latency(p))))
	}
	if !r.Options.VerboseCSV {
		return row
	}
	if r.Options.Percentile == -1 {
		row = append(row, number(us(w.Mean())))
	}
	row = append(row, number(t.send+t.receive), number(t.wait))
	if r.Options.CollectMetrics {
		for _, values := range []map[string]float64{x.GPU.Utilization, x.GPU.Power, x.GPU.UsedBytes, x.GPU.TotalBytes} {
			var cell strings.Builder
			for _, name := range sortedKeys(values) {
				cell.WriteString(name + ":" + sixDigits(values[name]) + ";")
			}
			row = append(row, cell.String())
		}
	}
	return row
}

// phaseCells are the server's columns; total is what they share with the network.
func (r *Run) phaseCells(c *target.Counters, total int64) []string {
	p := phasesOf(c)
	cells := []string{
		number(max(0, total-p.queue-p.compute-p.hit-p.miss)), number(p.queue), number(p.input), number(p.infer), number(p.output),
	}
	if r.Model.Cache {
		cells = append(cells, number(p.hit), number(p.miss))
	}
	return cells
}

// Composing are the files of the models that the model is made of: by what stands in
// front of the CSV file's name, how they are written. The server says how the models
// are called: a name stays one of a file in this directory.
func (r *Run) Composing() map[string]func(io.Writer) error {
	files := map[string]func(io.Writer) error{}
	for name, rows := range r.composing() {
		files[fileName(name)] = func(out io.Writer) error { return writeRows(out, rows) }
	}
	return files
}

// longestName bounds what stands in front of a file's name, in bytes.
const longestName = 128

func fileName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || !strconv.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	plain = strings.ToValidUTF8(plain[:min(len(plain), longestName)], "")
	if strings.HasPrefix(plain, ".") {
		plain = "_" + plain[1:]
	}
	return plain
}

func (r *Run) composing() map[string][][]string {
	files := map[string][][]string{}
	for i := range r.Results {
		x := &r.Results[i]
		if len(x.Window.Server) == 0 {
			continue
		}
		whole := max(1, x.Window.Server[0].Phases["success"].Count)
		for k := range x.Window.Server[1:] {
			c := &x.Window.Server[k+1]
			name := c.Name + "_v" + c.Version
			if files[name] == nil {
				header := append([]string{r.loadName(), "Inferences/Second", "Client Send"}, r.phaseNames()...)
				files[name] = [][]string{append(header, "Client Recv")}
			}
			rate := r.Inferences(x) * float64(c.Phases["success"].Count) / float64(whole)
			row := append([]string{sixDigits(x.Load), sixDigits(rate), "0"}, r.phaseCells(c, c.Phases["success"].MeanNS()/1000)...)
			files[name] = append(files[name], append(row, "0"))
		}
	}
	return files
}
