//go:build !unix

package measure

// ClientCPU is the processor time of this process in seconds, -1 where it is unknown.
func ClientCPU() float64 { return -1 }
