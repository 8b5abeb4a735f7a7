//go:build !linux

package processors

import "time"

func waitTime() time.Duration { return 0 }
