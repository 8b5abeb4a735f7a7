package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// plannedInstance is one instance that the configuration asks for.
type plannedInstance struct {
	backend.InstanceConfig
	limit  ratelimit.Instance
	like   string // instances with the same can stand for each other
	number int    // in the pool
}

// instancesOf returns the instances of a configuration, in the order in which the pool
// is given them.
func (m *Model) instancesOf(c *modelconfig.Config) (all []plannedInstance, err error) {
	for i := range c.Groups {
		g := &c.Groups[i]
		var needs []ratelimit.Need
		for _, r := range g.Resources {
			needs = append(needs, ratelimit.Need(r))
		}
		for _, in := range g.Instances() {
			if in.HostPolicy, err = m.policies.of(g.HostPolicy, &in); err != nil {
				return nil, err
			}
			all = append(all, plannedInstance{
				InstanceConfig: in, limit: ratelimit.Instance{Device: in.Device, Needs: needs, Priority: g.RateLimiterPriority}, number: len(all),
				// All but the name and how many there are, as in Triton.
				like: fmt.Sprintf("%s %d %q %v %q %+v %d", in.Kind, in.Device, in.Profiles, in.Passive, g.HostPolicy, g.Resources,
					g.RateLimiterPriority),
			})
		}
	}
	return all, nil
}

// match finds for each instance that is wanted one that is there, by name if it can.
// It returns those that have to be made, by their index in wanted, and those that
// nothing is left for.
func match(there, wanted []plannedInstance) (come []int, leave []plannedInstance) {
	taken := make([]bool, len(there))
	found := make([]bool, len(wanted))
	for _, named := range []bool{true, false} {
		for w := range wanted {
			for t := range there {
				if found[w] || taken[t] || there[t].like != wanted[w].like || named && there[t].Name != wanted[w].Name {
					continue
				}
				found[w], taken[t] = true, true
				wanted[w].InstanceConfig, wanted[w].number = there[t].InstanceConfig, there[t].number
			}
		}
	}
	for w := range wanted {
		if !found[w] {
			come = append(come, w)
		}
	}
	for t := range there {
		if !taken[t] {
			leave = append(leave, there[t])
		}
	}
	return come, leave
}

// Change is a change of a version's instances that has been prepared: those that
// come have been made. It ends with Commit or Abort.
type Change struct {
	m       *Model
	config  *modelconfig.Config
	planned []plannedInstance // as they will be
	come    []int
	passes  []int // of come, the passive ones
	leave   []plannedInstance
}

// CanChange reports whether the version can take over the instances of a
// configuration that is otherwise its own, without being loaded anew.
func (m *Model) CanChange(c *modelconfig.Config) bool {
	return m.pool != nil && c.Filename == m.config.Filename
}

// Change makes and warms up the instances that the configuration has more than the
// version. They take no requests before Commit. When it fails, everything is as it
// was. Only one change may be under way.
func (m *Model) Change(ctx context.Context, c *modelconfig.Config) (*Change, error) {
	planned, err := m.instancesOf(c)
	if err != nil {
		return nil, err
	}
	x := &Change{m: m, config: c, planned: planned}
	if !slices.ContainsFunc(x.planned, func(s plannedInstance) bool { return !s.Passive }) {
		return nil, backend.Errorf(backend.InvalidArg, "all instances of the model are passive: none would take its requests")
	}
	if c.Sequence != nil {
		for i := range c.Sequence.States {
			if err := checkState(c, i); err != nil {
				return nil, err
			}
		}
	}
	made, leave := match(m.planned, x.planned)
	x.leave = leave
	configs := make([]backend.InstanceConfig, len(made))
	for k, w := range made {
		configs[k] = x.planned[w].InstanceConfig
	}
	x.come = m.pool.Reserve(configs)
	needs := make(map[int]ratelimit.Instance, len(made))
	for k, w := range made {
		s := &x.planned[w]
		s.number = x.come[k]
		needs[s.number] = s.limit
		if s.Passive {
			x.passes = append(x.passes, s.number)
		}
	}
	if m.limits != nil {
		if err := m.limits.Add(needs); err != nil {
			return nil, errors.Join(err, m.pool.Discard(x.come))
		}
		if m.limits.Limited() {
			m.sayLimits()
		}
	}
	if err := m.pool.Make(ctx, x.come); err != nil {
		x.unlimit()
		return nil, err
	}
	return x, nil
}

// Abort closes what was made.
func (x *Change) Abort() {
	if err := x.m.pool.Discard(x.come); err != nil {
		x.m.logger.Warn("closing instances that were not wanted", "model", x.m.config.Name, "error", err)
	}
	x.unlimit()
}

func (x *Change) unlimit() {
	for _, i := range x.come {
		x.m.unlimit(i)
	}
}

func (m *Model) unlimit(i int) {
	said := m.limits.Needs(i)
	m.limits.Remove(i)
	if said {
		m.sayLimits()
	}
}

// sayLimits logs how much there is of each resource.
func (m *Model) sayLimits() {
	if m.limits != nil && m.logger.Enabled(context.Background(), slog.LevelDebug) {
		m.logger.Debug(m.limits.Table()) //nolint:sloglint // as in Triton, whose log is read by its tests
	}
}

// Counts returns how many instances come and leave.
func (x *Change) Counts() (added, removed int) { return len(x.come), len(x.leave) }

// Commit has the new instances take requests, and those that are not wanted any
// more end when they have done what they hold; sequences go on where they are.
// Executions that go on after patience are interrupted, but for sequences. The
// channels are closed as instances end, those left out that sequences are bound to.
func (x *Change) Commit(patience time.Duration) (leaving []<-chan struct{}) {
	m := x.m
	m.planned = x.planned
	m.current.Store(x.config)
	if m.sequence != nil {
		patience = 0
	}
	numbers := make([]int, len(x.leave))
	var leave, passive []int
	for k := range x.leave {
		s := &x.leave[k]
		numbers[k] = s.number
		if s.Passive {
			passive = append(passive, s.number)
		} else {
			leave = append(leave, s.number)
		}
	}
	come := slices.DeleteFunc(slices.Clone(x.come), func(i int) bool { return slices.Contains(x.passes, i) })
	m.pool.Join(x.come)
	m.pool.Leave(numbers)
	bound := m.scheduler.Change(come, leave, m.pool.Left)
	for _, i := range passive {
		m.pool.Left(i)
	}
	for _, i := range numbers {
		gone := m.pool.Depart(i, patience, func() { m.unlimit(i) })
		if !slices.Contains(bound, i) {
			leaving = append(leaving, gone)
		}
	}
	return leaving
}

// Instances returns how many instances there are, those that leave included,
// passive ones not; 0 for an ensemble.
func (m *Model) Instances() int {
	if m.pool == nil {
		return 0
	}
	return m.pool.Count()
}
