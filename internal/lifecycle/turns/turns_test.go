package turns

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoadsThatDoNotEnd: each gives its place up after the patience, but no more than may be
// late, and a late one that ends lets the next one be late.
func TestLoadsThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, time.Minute, 3)
		var late atomic.Int64
		var ends []func()
		took := make(chan func())
		take := func() {
			go func() {
				end, err := turns.Take(t.Context(), func() { late.Add(1) })
				if err != nil {
					t.Error(err)
				}
				took <- end
			}()
		}
		want := func(loads int, isLate int64) {
			t.Helper()
			synctest.Wait()
			for len(ends) < loads {
				select {
				case end := <-took:
					ends = append(ends, end)
				default:
					t.Fatalf("%d loads run, want %d", len(ends), loads)
				}
			}
			synctest.Wait()
			select {
			case <-took:
				t.Fatalf("more than %d loads run", loads)
			default:
			}
			if late := late.Load(); late != isLate {
				t.Fatalf("%d are late, want %d", late, isLate)
			}
		}
		for range 6 {
			take()
		}
		want(2, 0)
		time.Sleep(time.Minute - 1)
		want(2, 0)
		time.Sleep(time.Nanosecond)
		want(4, 2)
		time.Sleep(time.Minute)
		want(5, 3) // one of the two others keeps its place
		ends[0]()
		want(6, 4)
		for _, end := range ends[1:] {
			end()
		}
		if len(turns.places) != 0 || turns.late != 0 || len(turns.overdue) != 0 {
			t.Errorf("left: %d places, %d late, %d overdue", len(turns.places), turns.late, len(turns.overdue))
		}
		time.Sleep(time.Hour)
		if late.Load() != 4 {
			t.Error("a load that has ended is late")
		}
	})
}

func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(0, 0, 1)
		end, err := turns.Take(t.Context(), nil)
		if err != nil || turns.Places() != 1 {
			t.Fatal(err, turns.Places())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := turns.Take(ctx, nil); err == nil {
			t.Error("without patience a place is given up")
		}
		end()
		if end, err = turns.Take(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		end()
	})
}
