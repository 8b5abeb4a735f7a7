package sequence

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// Two instances share one unit with another model: one batch runs at a time, in
// the order in which they came, and requests of a sequence stay in theirs.
func TestInstancesShareAResource(t *testing.T) {
	for _, oldest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimit.New(nil)
			in := ratelimit.Instance{Priority: 1, Needs: []ratelimit.Need{{Name: "R", Count: 1}}}
			g, err := l.Register([]ratelimit.Instance{in, in})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			rival, err := l.Register([]ratelimit.Instance{in})
			if err != nil {
				t.Fatal(err)
			}
			defer rival.Close()
			c := &modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}, MaxIdle: time.Hour}
			if oldest {
				c.Direct, c.Oldest = nil, &modelconfig.OldestStrategy{}
			}
			w := newWorld(c, 1, &fake{instances: 2, depth: 2, limits: g, takes: time.Millisecond})
			if !rival.Ask(0) {
				t.Fatal("the rival does not get an idle resource")
			}
			for _, id := range []string{"a1", "b1", "a2", "b2", "a3"} {
				corr, flags := int(id[0]), first
				if id[1] != '1' {
					flags = 0
				}
				w.send(t.Context(), id, corr, flags)
			}
			synctest.Wait()
			w.want(t, []string{}, nil)
			var others ratelimit.Turns
			rival.Release(0, &others)
			others.Tell()
			time.Sleep(10 * time.Millisecond)
			w.want(t, []string{"a1", "b1", "a2", "b2", "a3"}, map[string]string{"a1": "ok", "b1": "ok", "a2": "ok", "b2": "ok", "a3": "ok"})

			// What waits when the model goes is answered, and its turn is not taken.
			if !rival.Ask(0) {
				t.Fatal("the resource is still held")
			}
			w.send(t.Context(), "a4", int('a'), 0)
			synctest.Wait()
			w.close(t)
			rival.Release(0, &others)
			others.Tell()
			if used := l.Usage()[0].Used; used != 0 {
				t.Errorf("%d units held", used)
			}
			w.want(t, nil, map[string]string{
				"a4": "Unavailable: Server is stopping, scheduler for model has stopped accepting new inference requests",
			})
		})
	}
}
