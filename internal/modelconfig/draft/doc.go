// Package draft owns a configuration on its way to a [modelconfig.Config]: a
// [Draft] goes through the steps of a load, each of which completes it or finds its
// faults, in the order in which Triton checks.
//
// Open draft.go first for the order of the steps; complete.go and normalize.go have
// the defaults, merge.go what a backend adds, outside.go and idle.go what else can be
// said of one.
package draft
