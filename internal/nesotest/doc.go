// Package nesotest helps tests of other packages: an in-memory backend whose
// every step a test can hook into, and model repositories written from a map.
package nesotest
