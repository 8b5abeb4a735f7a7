// Package nesotest helps tests of other packages: an in-memory backend whose
// every step a test can hook into, model repositories written from a map, a log to
// read while a server writes it, and the check that no goroutine is left.
package nesotest
