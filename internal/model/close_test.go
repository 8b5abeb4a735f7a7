package model

import (
	"runtime"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend/identity"
)

// A request that finds the version just as it is being closed pins and unpins
// it at once, and may say before Close does that nothing is pinned. Close must
// not wait for itself then.
func TestCloseWhileRequestsTryToPin(t *testing.T) {
	for range 200 {
		m := mustOpen(t, identityConfig(), identity.New())
		var wg sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for !m.closing.Load() {
					runtime.Gosched()
				}
				for range 1000 {
					if m.Pin() {
						m.Unpin()
					}
				}
			})
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}
