package dynamic

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
)

// strategic is start for a model that has a say in its batches.
func strategic(t *testing.T, c modelconfig.DynamicBatching, joins func([]*backend.Request) (int, error)) *bench {
	v := stats.NewVersion(nil)
	v.FormsBatches()
	f := &fake{instances: 1, took: taking(time.Second)}
	return &bench{New(Options{Config: &c, MaxBatchSize: 8, Executor: f, Stats: v, Joins: joins}), t, &log{start: time.Now()}, f, v}
}

func TestTheModelFormsItsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := strategic(t, modelconfig.DynamicBatching{}, func(of []*backend.Request) (int, error) {
			n := 1
			for n < len(of) && of[n].Priority == of[0].Priority {
				n++
			}
			return n, nil
		})
		kind := func(k uint64) func(*infer.Request) { return func(r *infer.Request) { r.Priority = k } }
		b.send("first")
		for i, id := range []string{"a", "b", "c", "d"} {
			b.send(id, kind(uint64(i/2)))
		}
		time.Sleep(3 * time.Second)
		b.log.expect(t, "1s first ok", "2s a ok", "2s b ok", "3s c ok", "3s d ok")
		if got := b.stats.Snapshot().BatchesClosed; got[stats.ClosedStrategy] != 1 {
			t.Errorf("closed: %v", got)
		}
		b.end()
	})
}

// TestAModelThatCannotSay has the server form the batches, and who is cancelled while the
// model is asked leaves at once.
func TestAModelThatCannotSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := strategic(t, modelconfig.DynamicBatching{}, func(of []*backend.Request) (int, error) {
			time.Sleep(10 * time.Second)
			for _, r := range of {
				if r.ID == "" || len(r.Inputs) != 1 || r.Inputs[0].Name != "IN" {
					t.Errorf("asked of %v", r)
				}
			}
			return 0, errors.New("no")
		})
		input := func(r *infer.Request) { r.Inputs = makeRequest("", map[string]string{"without": ""}).Inputs }
		gone, leave := context.WithCancel(t.Context())
		b.send("a", input)
		b.send("b", input)
		b.send("c", input, func(r *infer.Request) { r.Ctx = gone })
		time.Sleep(9 * time.Second)
		leave()
		time.Sleep(13 * time.Second)
		b.log.expect(t, `9s c Cancelled "" CANCELED`, "11s a ok", "22s b ok")
		b.end()
	})
}

func TestCloseWhileTheModelIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := strategic(t, modelconfig.DynamicBatching{}, func(of []*backend.Request) (int, error) {
			time.Sleep(time.Second)
			return len(of), nil
		})
		b.send("a")
		b.end()
		if took := time.Since(b.log.start); took != time.Second {
			t.Errorf("closed after %v, and the model was asked for a second", took)
		}
		b.log.expect(t, `0s a Unavailable "`+
			`[request id: a] Server is stopping, scheduler for model has stopped accepting new inference requests" OTHER`)
	})
}
