//go:build !unix

package processors

import "time"

func cpuTime() (time.Duration, bool) { return 0, false }
