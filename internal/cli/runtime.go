package cli

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times what is live before it is
// collected. Live memory of a serving process is a few MiB (tensors are pooled
// or shared memory), so the collector's share of a 64 B gRPC request falls from
// a fifth to a twentieth for some 15 MiB; see docs/performance.md.
const gcPercent = 400

// tuneRuntime sets what suits a server, unless the user has set it: GOGC and
// GOMEMLIMIT win.
func tuneRuntime() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
