package lane

import (
	"runtime"
	"testing"
	"testing/synctest"
)

func TestHalfOfTheProcessorsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := New(), max(1, runtime.GOMAXPROCS(0)/2)
		end, gone, working, left := make(chan struct{}), make(chan struct{}), 0, 0
		begin := func(gone chan struct{}) {
			go func() {
				if !l.In(gone, true, func() { working++; <-end }) {
					left++
				}
			}()
			synctest.Wait()
		}
		for range n + 1 {
			begin(nil)
		}
		begin(gone)
		light := l.In(nil, false, func() {})
		if working != n || left != 0 || !light {
			t.Errorf("%d work, of %d; %d have left; light work is done: %v", working, n, left, light)
		}
		close(gone)
		synctest.Wait()
		if working != n || left != 1 {
			t.Errorf("of those in line %d have left", left)
		}
		close(end)
		synctest.Wait()
		if working != n+1 || len(l) != 0 {
			t.Errorf("%d have worked, %d places are taken", working, len(l))
		}
		if l.Enter(gone) {
			t.Error("who has gone is let in")
		}
	})
}
