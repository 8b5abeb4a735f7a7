package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/rollout"
)

// Routing is what goes on under the rules for the versions of a model.
type Routing struct {
	Name, Namespace string
	Versions        []int64
	Plan            *rollout.Plan
	Numbers         rollout.Numbers
}

var routingHelp = map[string]string{
	"neso_rollout_requests_total":   "Requests of models with rules for their versions, by why they went to their version",
	"neso_rollout_share":            "Fraction of the requests without a version that the version gets, 0 to 1",
	"neso_rollout_mirrored_total":   "Copies of requests that were for the version, by what became of them",
	"neso_rollout_step_backs_total": "Times that the version lost its share since it left its bounds",
	"neso_rollout_stepped_back":     "1 while the version has no share for that reason",
}

func collectRoutings(ch chan<- prometheus.Metric, all []Routing) {
	for i := range all {
		r := &all[i]
		send := func(name string, kind prometheus.ValueType, value float64, version int64, more ...string) {
			names, values := []string{"model", "version"}, []string{valid(r.Name), strconv.FormatInt(version, 10)}
			if r.Namespace != "" {
				names, values = append(names, "namespace"), append(values, valid(r.Namespace))
			}
			for ; len(more) > 0; more = more[2:] {
				names, values = append(names, more[0]), append(values, more[1])
			}
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, routingHelp[name], names, nil), kind, value, values...)
		}
		for _, c := range r.Numbers.Requests {
			send("neso_rollout_requests_total", prometheus.CounterValue, float64(c.Count), c.Version, "reason", c.Reason.String(),
				"label", c.Label)
		}
		for version, counts := range r.Numbers.Mirrored {
			for o, count := range counts {
				send("neso_rollout_mirrored_total", prometheus.CounterValue, float64(count), version, "result", rollout.Outcome(o).String())
			}
		}
		for version, count := range r.Numbers.StepBacks {
			send("neso_rollout_step_backs_total", prometheus.CounterValue, float64(count), version)
		}
		for _, version := range r.Versions {
			back := 0.0
			if s := r.Plan.Stepped; s != nil && s.Version == version {
				back = 1
			}
			send("neso_rollout_stepped_back", prometheus.GaugeValue, back, version)
			if r.Plan.Shares() {
				send("neso_rollout_share", prometheus.GaugeValue, r.Plan.Share(version), version)
			}
		}
	}
}
