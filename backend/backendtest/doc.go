// Package backendtest is a suite that holds a backend to the contract of
// package backend. A backend's test names a few models it can serve and calls
// [Run]; what a backend has no model for is skipped.
//
// Open suite.go first; harness.go plays the server.
package backendtest
