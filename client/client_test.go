package client_test

import (
	"context"
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
	"github.com/nesoserve/neso/backend/repeat"
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

// repeatConfig is of a decoupled model that gives back the elements of IN one by one.
const repeatConfig = `{"name": "repeat", "backend": "repeat", "max_batch_size": 0, "model_transaction_policy": {"decoupled": true},
 "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [-1]}, {"name": "DELAY", "data_type": "TYPE_UINT32", "dims": [-1]},
 {"name": "WAIT", "data_type": "TYPE_UINT32", "dims": [1]}],
 "output": [{"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]}, {"name": "IDX", "data_type": "TYPE_UINT32", "dims": [1]}]}`

// newServer returns a server in explicit mode that has the backends of the models.
func newServer() *neso.Server {
	return &neso.Server{
		NoRepository: true, ControlMode: "explicit", Logger: slog.New(slog.DiscardHandler),
		Backends: []backend.Driver{identity.New(), repeat.New()},
		HTTP:     neso.HTTP{Address: "127.0.0.1:0"}, GRPC: neso.GRPC{Address: "127.0.0.1:0"},
	}
}

// loadModels loads id and repeat.
func loadModels(ctx context.Context, srv *neso.Server) error {
	file := map[string][]byte{"1/x": nil}
	return errors.Join(srv.Load(ctx, "id", config, file), srv.Load(ctx, "repeat", repeatConfig, file))
}

// start starts a server with the models, and returns its addresses. prepare may change it.
func start(t *testing.T, prepare func(*neso.Server)) map[string]string {
	t.Helper()
	srv := newServer()
	if prepare != nil {
		prepare(srv)
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := loadModels(t.Context(), srv); err != nil {
		t.Fatal(err)
	}
	return srv.Addresses()
}

// open returns a client that is closed at the end.
func open(t *testing.T, c *client.Client) *client.Client {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	return c
}

// server returns a client over HTTP of a server of its own.
func server(t *testing.T, address string) *client.Client {
	t.Helper()
	a := start(t, func(s *neso.Server) { s.HTTP.Address = address })
	return open(t, client.New(a["http"]))
}

// both runs a test over HTTP and over gRPC, each with a server of its own.
func both(t *testing.T, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	for _, scheme := range []string{"http", "grpc"} {
		t.Run(scheme, func(t *testing.T) {
			a := start(t, nil)
			test(t, open(t, client.New(scheme+"://"+a[scheme])))
		})
	}
}

func TestInfer(t *testing.T) { both(t, testInfer) }

func testInfer(t *testing.T, c *client.Client) {
	text := tensor.AppendElement(nil, "hi")
	q := &client.Request{Model: "id", Version: "1", ID: "7", Inputs: []client.Input{
		{Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2}, JSON: json.RawMessage("[1, 2]")},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: text},
	}}
	got, err := c.Infer(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Response{Model: "id", Version: "1", ID: "7", Final: true, Outputs: []client.Output{
		{Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2}, Data: []byte{1, 0, 0, 0, 2, 0, 0, 0}},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: text},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	q.JSONOutputs = true
	if got, err = c.Infer(t.Context(), q); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("as JSON: %v: %+v", err, got)
	}
	q.Outputs = []string{"S"}
	if got, err = c.Infer(t.Context(), q); err != nil || len(got.Outputs) != 1 || got.Output("S") == nil || got.Output("X") != nil {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestErrors(t *testing.T) { both(t, testErrors) }

func testErrors(t *testing.T, c *client.Client) {
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
	for _, address := range []string{"127.0.0.1:1", "grpc://127.0.0.1:1"} {
		if _, err := open(t, client.New(address)).Ready(t.Context()); err == nil || errors.As(err, &answer) {
			t.Errorf("no server at %s: got %v", address, err)
		}
	}
}

func TestReadiness(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	r, err := c.Readiness(t.Context())
	want := &client.Readiness{
		Ready: true, State: "READY",
		Models: []client.ModelReadiness{
			{Name: "id", Version: "1", State: "READY", Ready: true},
			{Name: "repeat", Version: "1", State: "READY", Ready: true},
		},
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
	both(t, testRepository)
	for scheme, prefix := range map[string]string{"http": "unix:", "grpc": "grpc+unix:"} {
		t.Run(scheme+" over a Unix socket", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			start(t, func(s *neso.Server) {
				*map[string]*string{"http": &s.HTTP.Address, "grpc": &s.GRPC.Address}[scheme] = "unix:" + path
			})
			testRepository(t, open(t, client.New(prefix+path)))
		})
	}
}

func testRepository(t *testing.T, c *client.Client) {
	if err := c.Unload(t.Context(), "repeat", false); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"1/x": nil, "1/y": []byte("content")}
	if err := c.Load(t.Context(), "id", &client.Override{Config: config, Files: files}); err != nil {
		t.Fatal(err)
	}
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
