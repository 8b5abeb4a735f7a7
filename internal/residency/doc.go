// Package residency decides which models are in memory where not all of them fit:
// which to load for the requests that wait, which to evict for that, and who is told
// that it cannot be. It is a pure state machine, without goroutine, clock or lock:
// events come by methods, and Step returns what is to be done at a moment.
//
// Open machine.go first, which has the events, then step.go, which decides;
// victims.go says who leaves. Package ondemand has the loop around it.
package residency
