//go:build !unix

package measure

import "runtime"

// ClientCPU is the processor time of this process in seconds, -1 where it is unknown.
func ClientCPU() float64 { return -1 }

// Processors is how many processors this process may use.
func Processors() int { return runtime.NumCPU() }
