//go:build unix

package measure

import (
	"golang.org/x/sys/unix"
)

// ClientCPU is the processor time of this process in seconds, -1 where it is unknown.
func ClientCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return -1
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
