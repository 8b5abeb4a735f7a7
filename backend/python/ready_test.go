//go:build unix

package python

import (
	"errors"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// asking is a program that asks whether the model is ready while it is given an answer.
type asking struct {
	*collector
	m     *model
	ready error
}

func (a *asking) Respond(resp *backend.Response, final bool) error {
	a.ready = a.m.Ready()
	return a.collector.Respond(resp, final)
}

// TestIsReadyWhileAnswering: whoever is given an answer holds up what the model's is_ready says then, which it said before counts;
// also where the worker has ended, whose requests are answered before it is followed.
func TestIsReadyWhileAnswering(t *testing.T) {
	for _, test := range []struct {
		name, says string
		value      float32
		want       string
	}{
		{"yes", "True", 1, ""},
		{"no", "False", 1, "is_ready() of the model returned False"},
		{"it has ended", "True", -1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		x = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()
		if x[0] < 0:
			os._exit(3)
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)])]

	def is_ready(self):
		return `+test.says+"\n", testOptions{})
			ic := m.cfg.Instances[0]
			ic.Report = func(backend.InstanceState) {}
			in, err := m.model.NewInstance(t.Context(), ic)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if err := m.model.Ready(); (err == nil) != (test.want == "") {
				t.Fatal(err)
			}
			r, c := newRequest(floats("IN", test.value))
			a := &asking{collector: c, m: m.model.(*model)}
			r.Responder = a
			ended := make(chan struct{})
			if err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1, Ended: func(err error) {
				if err != nil { // as the server does
					_ = a.Respond(&backend.Response{Err: backend.AsError(err)}, true)
				}
				close(ended)
			}}); !errors.Is(err, backend.ErrStarted) {
				t.Fatal(err)
			}
			<-ended
			if a.ready != nil && a.ready.Error() != test.want || a.ready == nil && test.want != "" {
				t.Errorf("got %v, want %q", a.ready, test.want)
			}
		})
	}
}
