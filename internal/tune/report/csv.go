package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// titles are Model Analyzer's columns that are no metrics, by the names that it has for them.
var titles = map[string]string{
	"model_name": "Model", "batch_size": "Batch", "concurrency": "Concurrency", "request_rate": "Request Rate",
	"model_config_path": "Model Config Path", "instance_group": "Instance Group", "satisfies_constraints": "Satisfies Constraints",
	"gpu_uuid": "GPU UUID", "dynamic_batch_sizes": "Preferred Batch Sizes", "max_batch_size": "Max Batch Size", "cpu_only": "CPU Only",
	"composing_models": "Composing Model Config Paths",
}

// prefixParameter stands before the key of a parameter that is a column.
const prefixParameter = "backend_parameter/"

func title(field string) string {
	if t, ok := titles[field]; ok {
		return t
	}
	if m := trial.Metric(field); m.Known() {
		return m.Title()
	}
	return field
}

// usual are the columns unless others are asked for.
func usual(load string) []string {
	return []string{
		"model_name", "batch_size", load, "model_config_path", "instance_group", "max_batch_size", "satisfies_constraints", "perf_throughput",
		"perf_latency_p99",
	}
}

// record is one level of one result as a row is made of it.
type record struct {
	o       *Outcome
	r       *trial.Ranked
	l       *trial.Level
	configs map[string]*knobs.Config
	number  int
	gpu     string
}

// each walks over all that was measured, the best configurations first, and within one
// the best load first.
func each(all []Outcome, f func(c *record) error) error {
	for i := range all {
		o := &all[i]
		number := 0
		for k := range o.Ranked {
			r := &o.Ranked[k]
			if len(r.Levels) == 0 {
				continue
			}
			configs := configsOf(o.State, r.Variant)
			if r.Key != "" {
				number++
			}
			levels := r.All()
			slices.SortStableFunc(levels, func(a, b trial.Level) int {
				x, y := o.Goal.Score(&a), o.Goal.Score(&b)
				if x.Better(y) {
					return -1
				}
				if y.Better(x) {
					return 1
				}
				return 0
			})
			for n := range levels {
				if levels[n].Failure != "" {
					continue
				}
				if err := f(&record{o: o, r: r, l: &levels[n], configs: configs, number: number}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// configsOf are the completed configurations with the changes, as far as they are read.
func configsOf(s *checkpoint.State, v trial.Variant) map[string]*knobs.Config {
	all := map[string]*knobs.Config{}
	for _, m := range s.Models {
		c, err := knobs.Read(m.Completed)
		if err != nil {
			c = &knobs.Config{Name: m.Name}
		}
		for _, change := range v[m.Name] {
			c.Apply(change)
		}
		all[m.Name] = c
	}
	return all
}

// Inference writes the table of what was measured of the models.
func Inference(out io.Writer, all []Outcome) error {
	fields := usual("concurrency")
	for i := range all {
		if given := all[i].State.Goal.Fields; len(given) > 0 {
			fields = given
		} else if len(all[i].State.Runs) > 0 && rated(all[i].State.Runs) {
			fields = usual("request_rate")
		}
	}
	return write(out, all, fields, false)
}

func rated(runs []trial.Run) bool {
	return slices.ContainsFunc(runs, func(r trial.Run) bool {
		return slices.ContainsFunc(r.Levels, func(l trial.Level) bool { return l.Load.Rate > 0 })
	})
}

// GPUs writes the table of what GPUs did meanwhile.
func GPUs(out io.Writer, all []Outcome) error {
	load := "concurrency"
	for i := range all {
		if rated(all[i].State.Runs) {
			load = "request_rate"
		}
	}
	return write(out, all, []string{
		"model_name", "gpu_uuid", "batch_size", load, "model_config_path", "instance_group", "satisfies_constraints", "gpu_used_memory",
		"gpu_utilization", "gpu_power_usage",
	}, true)
}

// HasGPUs reports whether a server told of any.
func HasGPUs(all []Outcome) bool {
	found := false
	_ = each(all, func(c *record) error { found = found || len(c.l.GPUs) > 0; return nil }) // it returns none
	return found
}

// Server writes the table of GPUs without a load: the least that a server had in use.
func Server(out io.Writer, all []Outcome) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"Model", "GPU UUID", "GPU Memory Usage (MB)", "GPU Utilization (%)", "GPU Power Usage (W)"}) // Flush tells
	least := map[string]*trial.GPU{}
	_ = each(all, func(c *record) error {
		for id, g := range c.l.GPUs {
			if least[id] == nil || g.Used < least[id].Used {
				least[id] = g
			}
		}
		return nil
	}) // it returns none
	for _, id := range slices.Sorted(maps.Keys(least)) {
		g := least[id]
		_ = w.Write([]string{"triton-server", id, round(g.Used / 1e6), round(100 * g.Utilization), round(g.Power)}) // Flush tells
	}
	w.Flush()
	return w.Error()
}

func write(out io.Writer, all []Outcome, fields []string, gpus bool) error {
	w := csv.NewWriter(out)
	var head []string
	for _, f := range fields {
		head = append(head, title(f))
	}
	_ = w.Write(head) // Flush tells
	_ = each(all, func(c *record) error {
		ids := []string{""}
		if gpus {
			ids = slices.Sorted(maps.Keys(c.l.GPUs))
		}
		for _, c.gpu = range ids {
			row := make([]string, len(fields))
			for i, f := range fields {
				row[i] = c.cell(f)
			}
			_ = w.Write(row) // Flush tells
		}
		return nil
	}) // it returns none
	w.Flush()
	return w.Error()
}

func round(f float64) string {
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
}

// joined is what each model has, as Model Analyzer joins it: by commas.
func (c *record) joined(of func(model string) string) string {
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(c.o.Goal)) {
		parts = append(parts, of(m))
	}
	return strings.Join(parts, ",")
}

func (c *record) cell(field string) string {
	config := func(of func(*knobs.Config) string) string {
		return c.joined(func(m string) string {
			var parts []string // of an ensemble, those of the models that it is made of
			for _, name := range c.parts(m) {
				parts = append(parts, of(c.configs[name]))
			}
			return strings.Join(parts, ",")
		})
	}
	switch field {
	case "model_name":
		return c.joined(func(m string) string { return m })
	case "batch_size":
		return c.joined(func(string) string { return strconv.Itoa(c.l.Load.Batch) })
	case "concurrency":
		return c.joined(func(string) string { return strconv.Itoa(c.l.Load.Concurrency) })
	case "request_rate":
		return c.joined(func(string) string { return strconv.FormatFloat(c.l.Load.Rate, 'g', -1, 64) })
	case "model_config_path":
		return c.joined(c.path)
	case "composing_models":
		var parts []string
		for _, m := range c.o.State.Models {
			if !m.Loaded {
				parts = append(parts, c.path(m.Name))
			}
		}
		return strings.Join(parts, ",")
	case "instance_group":
		return config(instances)
	case "max_batch_size":
		return config(func(k *knobs.Config) string { return strconv.Itoa(k.MaxBatch) })
	case "dynamic_batch_sizes":
		return config(func(k *knobs.Config) string {
			if k.Dynamic == nil {
				return "Disabled"
			} else if len(k.Dynamic.Preferred) == 0 {
				return "Enabled"
			}
			return "[" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(k.Dynamic.Preferred)), " "), "[]") + "]"
		})
	case "satisfies_constraints":
		if c.o.Goal.Score(c.l).Excess > 0 {
			return "No"
		}
		return "Yes"
	case "cpu_only":
		return config(func(k *knobs.Config) string { return strconv.FormatBool(!k.OnGPU()) })
	case "gpu_uuid":
		return c.gpu
	}
	if key, ok := strings.CutPrefix(field, prefixParameter); ok {
		return config(func(k *knobs.Config) string { return k.Parameters[key].Text })
	}
	return c.metric(trial.Metric(field))
}

// parts are the models that a model is made of, or itself.
func (c *record) parts(model string) []string {
	all := slices.DeleteFunc(c.configs[model].Composing(), func(name string) bool { return c.configs[name] == nil })
	if len(all) == 0 {
		return []string{model}
	}
	return all
}

// path is how a configuration is called: the model's name, its number by rank, or
// default for the one as it is.
func (c *record) path(model string) string {
	changed := len(c.r.Variant[model]) > 0
	for _, name := range c.parts(model) {
		changed = changed || len(c.r.Variant[name]) > 0
	}
	if !changed {
		return model + "_config_default"
	}
	return fmt.Sprintf("%s_config_%d", model, c.number-1)
}

func (c *record) metric(m trial.Metric) string {
	l := *c.l
	if g := l.GPUs[c.gpu]; c.gpu != "" && g != nil {
		l.GPUs = map[string]*trial.GPU{c.gpu: g}
	}
	names := slices.Sorted(maps.Keys(c.o.Goal))
	if v, ok := m.Of(&l, names[0]); !m.OfModel() || len(names) == 1 {
		if !ok {
			return ""
		}
		return round(v.Mean)
	}
	sum, least := 0.0, 0.0
	for _, n := range names {
		v, _ := m.Of(&l, n)
		sum += v.Mean
		least = max(least, v.Mean)
	}
	if m == trial.Throughput { // of all together, as there
		return round(sum)
	}
	return round(least)
}

func instances(k *knobs.Config) string {
	var parts []string
	for _, g := range k.Instances {
		kind := strings.TrimPrefix(g.Kind, "KIND_")
		if kind == "" || kind == "AUTO" {
			kind = "CPU"
		}
		parts = append(parts, fmt.Sprintf("%d:%s", max(g.Count, 1), kind))
	}
	if len(parts) == 0 {
		return "1:CPU"
	}
	return strings.Join(parts, "/")
}
