package neso_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/tensor"
)

// doubling starts a server with one model that is a Go function, and no
// listener.
func doubling() (*neso.Server, error) {
	srv := &neso.Server{NoRepository: true, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Bind(doubleModel, double); err != nil {
		return nil, err
	}
	return srv, srv.Start(context.Background())
}

// int32s reads INT32 elements.
func int32s(t tensor.Tensor) []int32 {
	v, err := tensor.Values[int32](&t)
	if err != nil {
		fmt.Println(err)
	}
	return v
}

// A function with two inputs, which it takes by name.
func ExampleFunc() {
	io := func(name string) backend.IO {
		return backend.IO{Name: name, Datatype: tensor.FP32, Dims: tensor.Shape{2}}
	}
	model := neso.Model{Name: "second", Inputs: []backend.IO{io("a"), io("b")}, Outputs: []backend.IO{io("chosen")}}
	second := func(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
		b, err := tensor.Values[float32](tensor.List(inputs).Get("b")) // inputs[1], whatever a client sends first
		if err != nil {
			return nil, err
		}
		chosen, err := tensor.New("chosen", inputs[1].Shape, b)
		return []tensor.Tensor{chosen}, err
	}
	srv := &neso.Server{NoRepository: true, Logger: slog.New(slog.DiscardHandler)}
	if err := errors.Join(srv.Bind(model, second), srv.Start(context.Background())); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	a, _ := tensor.New("a", tensor.Shape{2}, []float32{10, 20})
	b, _ := tensor.New("b", tensor.Shape{2}, []float32{1, 2})
	resp, err := srv.Infer(context.Background(), neso.Request{Model: "second", Inputs: []tensor.Tensor{b, a}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Release()
	fmt.Println(tensor.Values[float32](&resp.Outputs[0]))
	// Output: [1 2] <nil>
}

func ExampleServer_Infer() {
	srv, err := doubling()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	x, err := tensor.New("x", tensor.Shape{1, 3}, []int32{1, 2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := srv.Infer(context.Background(), neso.Request{Model: "double", Inputs: []tensor.Tensor{x}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Release()
	fmt.Println(resp.Outputs[0].Name, resp.Outputs[0].Shape, int32s(resp.Outputs[0]))
	// Output: y [1,3] [2 4 6]
}

func ExampleServer_Stream() {
	srv, err := doubling()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	x := tensor.Tensor{Name: "x", Datatype: tensor.Int32, Shape: tensor.Shape{1, 1}, Data: []byte{21, 0, 0, 0}}
	err = srv.Stream(context.Background(), neso.Request{Model: "double", Inputs: []tensor.Tensor{x}}, func(resp *backend.Response) bool {
		defer resp.Release()
		fmt.Println(int32s(resp.Outputs[0]))
		return true // false would cancel the request
	})
	fmt.Println(err)
	// Output:
	// [42]
	// <nil>
}

// The HTTP front end in a mux of the program.
func ExampleServer_Handler() {
	srv, err := doubling()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	mux := http.NewServeMux()
	mux.Handle("/v2/", srv.Handler())
	body := strings.NewReader(`{"inputs": [{"name": "x", "datatype": "INT32", "shape": [1, 1], "data": [4]}]}`)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v2/models/double/infer", body))
	fmt.Println(w.Code, w.Body)
	// Output: 200 {"model_name":"double","model_version":"1","outputs":[{"name":"y","datatype":"INT32","shape":[1,1],"data":[8]}]}
}

func ExampleServer_Run() {
	srv := &neso.Server{
		ModelRepositories: []string{"models"}, Backends: all.Drivers(all.Options{}),
		HTTP: neso.HTTP{Address: "localhost:8000"},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := srv.Run(ctx); err != nil { // serves until Ctrl-C, drains, closes
		fmt.Println(err)
	}
}

func ExampleOpenLog() {
	log, err := neso.OpenLog(neso.LogSettings{Format: "json", Verbose: 1}) // to standard error; File or Output for another place
	server := &neso.Server{Log: log}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(log.Format())
	if err := errors.Join(server.Close(), log.Close()); err != nil {
		fmt.Println(err)
	}
	// Output: json
}
