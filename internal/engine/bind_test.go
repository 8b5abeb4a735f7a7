package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestBind(t *testing.T) {
	for _, mode := range []string{"none", "explicit"} {
		echoing := nesotest.Program(t)
		b := echoing(&nesotest.Echo{})
		e := server(t, Options{NoRepository: true, ControlMode: mode})
		config, err := e.Bind(t.Context(), "m", 1, []byte(boundJSON), b)
		if err != nil || !strings.Contains(string(config), `"name":"m"`) && !strings.Contains(string(config), `"name": "m"`) {
			t.Fatalf("%s: %v", config, err)
		}
		if err := e.ModelReady("m", -1); err != nil {
			t.Error(err)
		}
		if index, _ := e.Index(true); len(index) != 1 || index[0].Name != "m" || index[0].Version != "1" {
			t.Errorf("index %+v", index)
		}
		if err := askBound(e); err != nil {
			t.Error(err)
		}
		if err := e.Unbind(t.Context(), "m", 1, b); err != nil {
			t.Error(err)
		}
		if err := e.ModelReady("m", -1); err == nil {
			t.Error("ready after Unbind")
		}
		if index, _ := e.Index(false); len(index) != 0 {
			t.Errorf("index after Unbind %+v", index)
		}
	}
}

// askBound sends one request to the bound model and waits for its answer.
func askBound(e *Engine) error {
	done := make(chan error, 1)
	err := e.Host().Infer(&backend.Request{
		ModelName: "m", ModelVersion: -1, BatchSize: 1, Ctx: context.Background(), Responder: asked(done),
		Inputs: []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{1, 1}, Data: make([]byte, 4)}},
	})
	if err != nil {
		return err
	}
	return <-done
}

type asked chan error

func (a asked) Respond(resp *backend.Response, final bool) error {
	var err error
	if resp != nil && resp.Err != nil {
		err = resp.Err
	}
	resp.Release()
	if final {
		a <- err
	}
	return nil
}

func (a asked) Cancelled() bool { return false }
