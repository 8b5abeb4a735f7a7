package neso_test

import (
	"context"
	"encoding/binary"
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
func int32s(data []byte) []int32 {
	v := make([]int32, len(data)/4)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

func ExampleServer_Infer() {
	srv, err := doubling()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	x := tensor.Tensor{Name: "x", Datatype: tensor.Int32, Shape: tensor.Shape{1, 3}, Data: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}}
	resp, err := srv.Infer(context.Background(), neso.Request{Model: "double", Inputs: []tensor.Tensor{x}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Release()
	fmt.Println(resp.Outputs[0].Name, resp.Outputs[0].Shape, int32s(resp.Outputs[0].Data))
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
		fmt.Println(int32s(resp.Outputs[0].Data))
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
	srv := &neso.Server{ModelRepositories: []string{"models"}, Backends: all.Drivers(all.Options{}), HTTP: neso.HTTP{Address: "localhost:8000"}}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := srv.Run(ctx); err != nil { // serves until Ctrl-C, drains, closes
		fmt.Println(err)
	}
}
