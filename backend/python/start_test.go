//go:build unix

package python

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// TestStarted: a batch that nobody waits for is answered and ended by who reads, also beside batches that are waited for;
// one that the worker dies of ends with the cause, and what comes until there is another worker is given back.
func TestStarted(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		if any((pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() < 0).any() for r in requests):
			os._exit(3)
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
`, testOptions{batch: 4})
	if caps := (&driver{}).Capabilities(); !caps.Starts(&m.cfg) || caps.Starts(&backend.Config{Decoupled: true}) {
		t.Error("what starts batches says otherwise")
	}
	up := make(chan struct{}, 100)
	ic := m.cfg.Instances[0]
	ic.Report = func(s backend.InstanceState) {
		if !s.Down {
			up <- struct{}{}
		}
	}
	in, err := m.model.NewInstance(t.Context(), ic)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	<-up
	start := func(values ...float32) (*collector, <-chan error, error) {
		ended := make(chan error, 1)
		r, c := newRequest(floats("IN", values...))
		err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1, Ended: func(err error) { ended <- err }})
		return c, ended, err
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for k := range 200 {
				c, ended, err := start(float32(k))
				if !errors.Is(err, backend.ErrStarted) {
					t.Errorf("Execute: %v", err)
					return
				}
				answered(t, <-ended, c)
			}
		})
		both.Go(func() {
			for k := range 200 {
				r, c := newRequest(floats("IN", float32(k)))
				answered(t, in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1}), c)
			}
		})
	}
	both.Wait()
	_, ended, err := start(-1)
	if !errors.Is(err, backend.ErrStarted) {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "exited with code 3") {
		t.Errorf("the worker died, and the batch ended with %v", err)
	}
	for {
		c, ended, err := start(1)
		if errors.Is(err, backend.ErrNotBegun) {
			<-up
			continue
		}
		if !errors.Is(err, backend.ErrStarted) {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || c.wait(t)[0].Err != nil {
			t.Errorf("the next worker: %v", err)
		}
		return
	}
}

// answered checks how a batch ended: with its answer, unless it was recalled, since the one
// before it took long.
func answered(t *testing.T, err error, c *collector) {
	t.Helper()
	if !errors.Is(err, backend.ErrNotBegun) && (err != nil || c.wait(t)[0].Err != nil) {
		t.Errorf("ended with %v", err)
	}
}
