package cli

import (
	"fmt"
	"time"
)

// onDemandTable lists the options of --model-control-mode=on-demand.
func onDemandTable() []option {
	return []option{
		{
			name: "model-memory-limit", kind: "integer", group: groupNeso,
			help: "Bytes of memory (suffixes K, M, G) that all models may have together with --model-control-mode=on-demand: for one that is " +
				"wanted, idle ones leave that nobody has used for the longest time. Default: 0, no limit.",
			set: setCount(func(o *serveOptions) *int64 { return &o.server.OnDemand.MemoryLimit }),
		},
		{
			name: "on-demand-timeout-secs", kind: "integer", group: groupNeso,
			help: "Seconds that a request waits for its model to be loaded. Default: 60.",
			set:  positiveSecondsVar(func(o *serveOptions) *time.Duration { return &o.server.OnDemand.LoadTimeout }),
		},
		{
			name: "on-demand-max-waiting", kind: "integer", group: groupNeso,
			help: "Requests that may wait for models at the same time; further ones are refused at once. Default: 1024.",
			set:  positiveVar(func(o *serveOptions) *int { return &o.server.OnDemand.MaxWaiting }),
		},
		{
			name: "on-demand-load-count", kind: "integer", group: groupNeso,
			help: "Models that requests load at the same time, at most --model-load-thread-count. Default: half of the processors.",
			set:  positiveVar(func(o *serveOptions) *int { return &o.server.OnDemand.Loads }),
		},
		{
			name: "on-demand-min-residency-secs", kind: "float", group: groupNeso,
			help: "Seconds that a model which came in stays at least, so that models that do not fit together do not drive each other out for " +
				"each request; 0 for none. Default: 1.",
			set: func(o *serveOptions, s string) error {
				err := floatSecondsVar(func(o *serveOptions) *time.Duration { return &o.server.OnDemand.MinResidency })(o, s)
				if err == nil && o.server.OnDemand.MinResidency == 0 {
					o.server.OnDemand.MinResidency = -1
				}
				return err
			},
		},
		{
			name: "on-demand-idle-secs", kind: "integer", group: groupNeso,
			help: "Seconds without requests after which a model leaves, unless its parameter on_demand_idle_secs says otherwise. Default: 0, never.",
			set:  secondsVar(func(o *serveOptions) *time.Duration { return &o.server.OnDemand.IdleTimeout }),
		},
	}
}

func positiveVar(p func(*serveOptions) *int) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseInt(s)
		if err == nil && v < 1 {
			err = fmt.Errorf("expected a number above 0, got %q", s)
		}
		*p(o) = v
		return err
	}
}

func positiveSecondsVar(p func(*serveOptions) *time.Duration) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		err := secondsVar(p)(o, s)
		if err == nil && *p(o) == 0 {
			err = fmt.Errorf("expected a number of seconds above 0, got %q", s)
		}
		return err
	}
}
