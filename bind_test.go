package neso_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) {
	nesotest.Main(m)
}

// double is a model: y = 2x.
func double(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	x := inputs[0]
	data := make([]byte, len(x.Data))
	for i := 0; i < len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], 2*binary.LittleEndian.Uint32(x.Data[i:]))
	}
	return []tensor.Tensor{{Name: "y", Datatype: x.Datatype, Shape: x.Shape, Data: data}}, nil
}

var doubleModel = neso.Model{
	Name:         "double",
	Inputs:       []backend.IO{{Name: "x", Datatype: tensor.Int32, Dims: tensor.Shape{-1}}},
	Outputs:      []backend.IO{{Name: "y", Datatype: tensor.Int32, Dims: tensor.Shape{-1}}},
	MaxBatchSize: 8,
}

func ExampleServer_Bind() {
	srv := &neso.Server{HTTP: neso.HTTP{Address: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Bind(doubleModel, double); err != nil {
		fmt.Println(err)
		return
	}
	if err := srv.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Println(post(srv, "double", `{"inputs": [{"name": "x", "datatype": "INT32", "shape": [1, 3], "data": [1, 2, 3]}]}`))
	// Output: {"model_name":"double","model_version":"1","outputs":[{"name":"y","datatype":"INT32","shape":[1,3],"data":[2,4,6]}]}
}

func post(srv *neso.Server, model, body string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post("http://"+srv.Addresses()["http"]+"/v2/models/"+model+"/infer", "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestBindFunc(t *testing.T) {
	srv := &neso.Server{HTTP: neso.HTTP{Address: "127.0.0.1:0"}, NoRepository: true, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Unbind("x", 1); err == nil {
		t.Error("Unbind before Start")
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := srv.Bind(doubleModel, nil); err == nil {
		t.Error("a nil function was bound")
	}
	if err := srv.Bind(neso.Model{Name: "bad", Config: []byte("{")}, double); err == nil {
		t.Error("a broken configuration was bound")
	}
	const body = `{"inputs": [{"name": "x", "datatype": "INT32", "shape": [%s3], "data": [1, 2, 3]}]}`
	plain := doubleModel
	plain.Name, plain.MaxBatchSize, plain.Instances = "plain", 0, 3
	for _, c := range []struct {
		model neso.Model
		f     neso.Func
		shape string
		want  string
	}{
		{doubleModel, double, "1,", "[2,4,6]"},
		{plain, double, "", "[2,4,6]"},
		{plain, func(_ context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) { // an input as an output
			y := in[0]
			y.Name = "y"
			return []tensor.Tensor{y}, nil
		}, "", "[1,2,3]"},
		{plain, func(context.Context, []tensor.Tensor) ([]tensor.Tensor, error) {
			return nil, backend.Errorf(backend.InvalidArg, "not today")
		}, "", "not today"},
		{doubleModel, func(context.Context, []tensor.Tensor) ([]tensor.Tensor, error) { panic("oh") }, "1,", "panicked"},
		{doubleModel, func(context.Context, []tensor.Tensor) ([]tensor.Tensor, error) { return nil, nil }, "1,", "y"},
	} {
		if err := srv.Bind(c.model, c.f); err != nil {
			t.Fatal(err)
		}
		if got := post(srv, c.model.Name, fmt.Sprintf(body, c.shape)); !strings.Contains(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if err := srv.Unbind("plain", 0); err != nil {
		t.Error(err)
	}
	if got := post(srv, "plain", fmt.Sprintf(body, "")); !strings.Contains(got, "unknown model") {
		t.Errorf("got %s", got)
	}
}

// minus is a model that knows its inputs by their place.
func minus(_ context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
	a, err := tensor.Values[int32](&in[0])
	if err != nil {
		return nil, err
	}
	b, err := tensor.Values[int32](&in[1])
	if err != nil {
		return nil, err
	}
	c := make([]int32, len(a))
	for i := range a {
		c[i] = a[i] - b[i]
	}
	out, err := tensor.New("c", in[0].Shape, c)
	return []tensor.Tensor{out}, err
}

// Clients name inputs in any order, and requests of both orders share batches.
func TestBindOrdersInputs(t *testing.T) {
	srv := &neso.Server{HTTP: neso.HTTP{Address: "127.0.0.1:0"}, NoRepository: true, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	io := func(name string) backend.IO {
		return backend.IO{Name: name, Datatype: tensor.Int32, Dims: tensor.Shape{1}}
	}
	model := neso.Model{Name: "minus", Inputs: []backend.IO{io("a"), io("b")}, Outputs: []backend.IO{io("c")}}
	for _, batch := range []int{0, 8} {
		model.MaxBatchSize = batch
		if err := srv.Bind(model, minus); err != nil {
			t.Fatal(err)
		}
		shape := "[1]"
		if batch > 0 {
			shape = "[1, 1]"
		}
		a := `{"name": "a", "datatype": "INT32", "shape": ` + shape + `, "data": [10]}`
		b := `{"name": "b", "datatype": "INT32", "shape": ` + shape + `, "data": [3]}`
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				order := a + ", " + b
				if i%2 == 0 {
					order = b + ", " + a
				}
				if got := post(srv, "minus", `{"inputs": [`+order+`]}`); !strings.Contains(got, `"data":[7]`) {
					t.Errorf("max_batch_size %d, %s: got %s", batch, order, got)
				}
			})
		}
		wg.Wait()
	}
}
