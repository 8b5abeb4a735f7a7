package cli

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/nesoserve/neso/internal/processors"
)

const (
	// gcPercent lets the heap grow to five times what is live before it is
	// collected. Live memory of a serving process is a few MiB (tensors are pooled
	// or shared memory), so the collector's share of a 64 B gRPC request falls from
	// a fifth to a twentieth for some 15 MiB; see docs/performance.md.
	gcPercent = 400
	// gcLeast is what is left of that for a large heap.
	gcLeast = 100
	// gcGrowth is how many bytes the heap of a server may grow by gcPercent, and
	// not by gcLeast: large messages leave tens of MiB in pools, and five times that
	// would be filled by small requests before anybody looked.
	gcGrowth = 64 << 20
)

// tuneRuntime sets what suits a server, unless the user has set it: GOGC and
// GOMEMLIMIT win.
func tuneRuntime() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		followHeap()
	}
}

// percentFor is the growth in percent for a heap of which live bytes are in use.
func percentFor(live uint64) int {
	return int(max(gcLeast, min(gcPercent, gcGrowth*100/max(live, 1))))
}

// followHeap sets the percentage anew after collections, from the finalizer of
// an object that each of them finds dead. It lasts as long as the process.
var followHeap = sync.OnceFunc(func() {
	type mark struct{ _ [64]byte } // large enough to be an allocation of its own
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	last := gcPercent
	var arm func()
	arm = func() {
		runtime.SetFinalizer(&mark{}, func(*mark) {
			metrics.Read(sample)
			if sample[0].Value.Kind() == metrics.KindUint64 {
				// Setting it stops the world for a moment: not for a small change.
				if next := percentFor(sample[0].Value.Uint64()); next < last*9/10 || next > last*11/10 || next == gcPercent && last != next {
					debug.SetGCPercent(next)
					last = next
				}
			}
			arm()
		})
	}
	arm()
})

// followLoad uses as many processors as the load needs, until stop is called.
func followLoad() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { processors.Follow(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}
