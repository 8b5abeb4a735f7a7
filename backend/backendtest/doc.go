// Package backendtest is a suite that holds a backend to the contract of
// package backend. A backend's test names a few models it can serve and calls
// [Run]; what a backend has no model for is skipped.
//
// [Faults] wraps a backend with faults and delays, for tests of what uses it.
//
// Open suite.go first; harness.go plays the server, and host.go what a model may
// ask of it.
package backendtest
