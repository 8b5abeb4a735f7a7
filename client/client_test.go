package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := nesotest.Left(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const config = `{"name": "id", "backend": "identity", "max_batch_size": 4,
 "input": [{"name": "X", "data_type": "TYPE_INT32", "dims": [-1]}, {"name": "S", "data_type": "TYPE_STRING", "dims": [-1], "optional": true}],
 "output": [{"name": "X", "data_type": "TYPE_INT32", "dims": [-1]}, {"name": "S", "data_type": "TYPE_STRING", "dims": [-1]}]}`

// server starts a server in explicit mode at address with model id loaded.
func server(t *testing.T, address string) *client.Client {
	t.Helper()
	srv := &neso.Server{
		NoRepository: true, ControlMode: "explicit", Logger: slog.New(slog.DiscardHandler), Backends: []backend.Driver{identity.New()},
		HTTP: neso.HTTP{Address: address},
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	c := client.New(srv.Addresses()["http"])
	if strings.HasPrefix(address, "unix:") {
		c = client.New(address)
		t.Cleanup(c.HTTP.CloseIdleConnections)
	}
	if err := c.Load(t.Context(), "id", &client.Override{Config: config, Files: map[string][]byte{"1/x": nil}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestInfer(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	text := tensor.AppendElement(nil, "hi")
	q := &client.Request{Model: "id", Version: "1", ID: "7", Inputs: []client.Input{
		{Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2}, JSON: json.RawMessage("[1, 2]")},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: text},
	}}
	got, err := c.Infer(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Response{Model: "id", Version: "1", ID: "7", Outputs: []client.Output{
		{Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2}, Data: []byte{1, 0, 0, 0, 2, 0, 0, 0}},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: text},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	q.Outputs = []string{"S"}
	if got, err = c.Infer(t.Context(), q); err != nil || len(got.Outputs) != 1 || got.Output("S") == nil || got.Output("X") != nil {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestErrors(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	_, err := c.Infer(t.Context(), &client.Request{Model: "nope/../id"})
	var answer *client.Error
	if !errors.As(err, &answer) || answer.Status/100 != 4 || answer.Message == "" {
		t.Errorf("got %v", err)
	}
	if ready, _ := c.ModelReady(t.Context(), "nope", ""); ready {
		t.Error("a model that is not there is ready")
	}
	if _, err := c.LogSettings(t.Context(), map[string]any{"log_verbose_level": 2}); !errors.As(err, &answer) ||
		answer.Status != http.StatusNotImplemented {
		t.Errorf("a server that logs elsewhere: got %v", err)
	}
	if _, err := client.New("127.0.0.1:1").Ready(t.Context()); err == nil {
		t.Error("no server: no error")
	}
}

func TestReadiness(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	r, err := c.Readiness(t.Context())
	want := &client.Readiness{
		Ready: true, State: "READY",
		Models: []client.ModelReadiness{{Name: "id", Version: "1", State: "READY", Ready: true}},
	}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := c.Load(t.Context(), "broken", &client.Override{
		Config: `{"name": "broken", "backend": "none"}`,
		Files:  map[string][]byte{"1/x": nil},
	}); err == nil {
		t.Fatal("loaded without its backend")
	}
	r, err = c.Readiness(t.Context())
	if err != nil || r.Ready || !strings.Contains(r.Reason, "broken") || r.Models[0].Reason == "" {
		t.Errorf("%v %+v", err, r)
	}
}

func TestRepository(t *testing.T) {
	c := server(t, "unix:"+filepath.Join(t.TempDir(), "s"))
	list, err := c.Index(t.Context(), true)
	if want := []client.IndexEntry{{Name: "id", Version: "1", State: "READY"}}; err != nil || !cmp.Equal(list, want) {
		t.Errorf("%v: %+v", err, list)
	}
	if ready, err := c.ModelReady(t.Context(), "id", "1"); err != nil || !ready {
		t.Errorf("%v %v", ready, err)
	}
	meta, err := c.ModelMetadata(t.Context(), "id", "")
	if err != nil || len(meta.Inputs) != 2 || meta.Inputs[0].Datatype != "INT32" || !cmp.Equal(meta.Inputs[0].Shape, []int64{-1, -1}) {
		t.Errorf("%v: %+v", err, meta)
	}
	if err := c.Unload(t.Context(), "id", true); err != nil {
		t.Error(err)
	}
	for ready := true; ready && err == nil; { // it returns before the model is gone
		ready, err = c.ModelReady(t.Context(), "id", "")
	}
}
