// Package ondemand loads models when requests want them, and evicts others for that:
// the loop around the decisions of package residency. It owns who waits for a model,
// which models the repositories have, and how much memory each of them takes.
//
// Open loader.go first, then wait.go, which has the way of a request, and work.go,
// which does what is decided.
package ondemand
