package sequence

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig"
)

// An instance leaves when its last sequence ends, be it by being silent for too
// long; what waits goes to those that come.
func TestInstancesComeAndGo(t *testing.T) {
	for name, c := range map[string]*modelconfig.SequenceBatching{
		"direct": {Direct: &modelconfig.DirectStrategy{}, MaxIdle: time.Minute},
		"oldest": {Oldest: &modelconfig.OldestStrategy{MaxCandidateSequences: 1}, MaxIdle: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(c, 1, &fake{instances: 2, takes: time.Millisecond})
				var left []int
				note := func(i int) { left = append(left, i) }
				send := func(id string, corr int, ends bool) {
					flags := first
					if id[1] != '1' {
						flags = 0
					}
					if ends {
						flags |= last
					}
					w.send(t.Context(), id, corr, flags)
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				send("a1", 1, false)
				send("b1", 2, false)
				send("c1", 3, false) // waits
				if bound := w.Change([]int{2}, []int{0, 1}, note); !slices.Equal(bound, []int{0, 1}) {
					t.Errorf("bound: %v", bound)
				}
				time.Sleep(10 * time.Millisecond)
				send("a2", 1, false)
				send("c2", 3, false)
				send("a3", 1, true)
				if !slices.Equal(left, []int{0}) {
					t.Errorf("after the end of a: %v", left)
				}
				send("b2", 2, false)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !slices.Equal(left, []int{0, 1}) {
					t.Errorf("after the silence of b: %v", left)
				}
				if bound := w.Change([]int{0, 1}, []int{2}, note); bound != nil || !slices.Equal(left, []int{0, 1, 2}) {
					t.Errorf("bound %v, left %v", bound, left)
				}
				send("d1", 4, true)
				send("b3", 2, false)
				w.close(t)
				w.want(t, []string{"a1", "b1", "c1", "a2", "c2", "a3", "b2", "d1"}, map[string]string{
					"c2": "ok", "b3": "refused: inference request for sequence 2 to model 'm' must specify the START flag on the first request of the " +
						"sequence",
				})
			})
		})
	}
}
