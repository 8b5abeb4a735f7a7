package model

import (
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// The parameters of a configuration that say how long a model stays in memory where
// models are loaded on demand. They mean nothing elsewhere.
const (
	paramPin      = "on_demand_pin"
	paramIdle     = "on_demand_idle_secs"
	paramPriority = "on_demand_priority"
)

const (
	// mostIdle bounds paramIdle.
	mostIdle = 365 * 24 * time.Hour
	// mostPriority bounds paramPriority, on both sides.
	mostPriority = 1000
)

// OnDemand is what a configuration says of that.
type OnDemand struct {
	// Pin keeps the model in memory once it is there.
	Pin bool
	// Idle is after how long without requests it leaves, 0 for never; negative where
	// the configuration does not say.
	Idle time.Duration
	// Priority: models of a lower one leave first and are loaded last.
	Priority int
}

// OnDemandOf reads it.
func OnDemandOf(c *modelconfig.Config) (o OnDemand, err error) {
	o.Idle = -1
	refuse := func(name, expected string) error {
		return backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected %s", name, c.Name, c.Parameters[name], expected)
	}
	if v, ok := c.Parameters[paramPin]; ok {
		if v != "true" && v != "false" {
			return o, refuse(paramPin, "true or false")
		}
		o.Pin = v == "true"
	}
	if v, ok := c.Parameters[paramIdle]; ok {
		secs, bad := strconv.ParseFloat(v, 64)
		if bad != nil || !(secs >= 0 && secs <= mostIdle.Seconds()) {
			return o, refuse(paramIdle, "a number of seconds, 0 for never, at most a year")
		}
		if o.Idle = time.Duration(secs * float64(time.Second)); secs > 0 {
			o.Idle = max(o.Idle, time.Millisecond)
		}
	}
	if v, ok := c.Parameters[paramPriority]; ok {
		n, bad := strconv.Atoi(v)
		if bad != nil || n < -mostPriority || n > mostPriority {
			return o, refuse(paramPriority, "a whole number from -1000 to 1000")
		}
		o.Priority = n
	}
	return o, nil
}

// Use notes that a request came at that moment.
func (m *Model) Use(now int64) { m.used.Store(now) }

// Used is when the last one did that Use was told of; 0 for none.
func (m *Model) Used() int64 { return m.used.Load() }
