// Package objective keeps a latency objective: it says how large the next batch may
// be, whether a request can still be answered in time, and which of those that wait
// cannot, from what it has learnt of how long batches of each size take.
//
// Open goal.go first. cost.go learns the times of batches, rate.go how many requests
// come. Nothing in it has a clock, a lock or a goroutine: the dynamic batcher tells it
// what happens, with the time as an argument, in nanoseconds of backend.Now.
package objective
