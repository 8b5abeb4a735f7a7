//go:build !linux

package measure

// ServerProcess finds the process that listens on a port of this machine; 0 if there
// is none that can be seen.
func ServerProcess(string) int { return 0 }

// ServerCPU is the processor time of a process and all that descend from it, in
// seconds, -1 where it cannot be seen.
func ServerCPU(int) float64 { return -1 }
