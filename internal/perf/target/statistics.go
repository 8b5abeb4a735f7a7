package target

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Duration is a sum of times, in nanoseconds, of Count requests.
type Duration struct{ Count, NS int64 }

// MeanNS is the mean in nanoseconds.
func (d Duration) MeanNS() int64 {
	if d.Count <= 0 {
		return 0
	}
	return d.NS / d.Count
}

// Counters are the statistics of one version of a model.
type Counters struct {
	Name, Version          string
	Inferences, Executions int64
	// Phases has success, fail, queue, compute_input, compute_infer, compute_output,
	// cache_hit and cache_miss.
	Phases map[string]Duration
}

// Statistics asks for the counters of the models in names, each a name or
// name:version; those that the server does not know are left out.
func Statistics(ctx context.Context, api API, names []string) ([]Counters, error) {
	var all []Counters
	for i, n := range names {
		name, version, _ := strings.Cut(n, ":")
		text, err := api.Statistics(ctx, name, version)
		if err != nil {
			if i > 0 {
				continue
			}
			return nil, err
		}
		var answer struct {
			Models []struct {
				Name       string
				Version    json.RawMessage
				Inferences number                                `json:"inference_count"`
				Executions number                                `json:"execution_count"`
				Stats      map[string]struct{ Count, NS number } `json:"inference_stats"`
			} `json:"model_stats"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, err
		}
		for _, m := range answer.Models {
			c := Counters{
				Name: m.Name, Version: strings.Trim(string(m.Version), `"`), Inferences: int64(m.Inferences), Executions: int64(m.Executions),
				Phases: map[string]Duration{},
			}
			for phase, d := range m.Stats {
				c.Phases[phase] = Duration{int64(d.Count), int64(d.NS)}
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// Since returns what has been added to before, which Statistics has returned
// earlier. Versions that have done nothing are left out, but for the first.
func Since(after, before []Counters) []Counters {
	var all []Counters
	for i, c := range after {
		d := Counters{Name: c.Name, Version: c.Version, Inferences: c.Inferences, Executions: c.Executions, Phases: map[string]Duration{}}
		k := slices.IndexFunc(before, func(b Counters) bool { return b.Name == c.Name && b.Version == c.Version })
		maps.Copy(d.Phases, c.Phases)
		if k >= 0 && before[k].Inferences <= c.Inferences { // else it has been loaded anew
			d.Inferences -= before[k].Inferences
			d.Executions -= before[k].Executions
			for phase, v := range before[k].Phases {
				now := d.Phases[phase]
				d.Phases[phase] = Duration{now.Count - v.Count, now.NS - v.NS}
			}
		}
		if i == 0 || d.Phases["success"].Count > 0 || d.Phases["fail"].Count > 0 {
			all = append(all, d)
		}
	}
	return all
}

// Add adds b to a, model by model.
func Add(a, b []Counters) []Counters {
	a = slices.Clone(a)
	for _, c := range b {
		i := slices.IndexFunc(a, func(d Counters) bool { return d.Name == c.Name && d.Version == c.Version })
		if i < 0 {
			a = append(a, c)
			continue
		}
		sum := a[i]
		sum.Inferences += c.Inferences
		sum.Executions += c.Executions
		sum.Phases = map[string]Duration{}
		for phase, v := range a[i].Phases {
			more := c.Phases[phase]
			sum.Phases[phase] = Duration{v.Count + more.Count, v.NS + more.NS}
		}
		a[i] = sum
	}
	return a
}
