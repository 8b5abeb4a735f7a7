// Package check owns what a configuration must be like: each check has Triton's
// text, and they come in Triton's order. It looks at the message alone; where a
// field stands, and which could not be read, its [fault.Source] says.
//
// Open check.go first; instances.go has what depends on the server's GPUs.
package check
