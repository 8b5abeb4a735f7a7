// Package instance owns the instances of one model version: it creates them,
// picks a free one, and runs batches on it, which is hop 5 of a request.
//
// Open pool.go first, then execute.go; capacity.go hands out room on instances,
// gather.go concatenates inputs.
package instance
