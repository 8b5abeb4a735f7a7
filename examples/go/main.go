// Command go serves a Go function as a model, beside the models of a repository:
// docs/go.md.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/tensor"
)

// subtract is the model: difference = a - b, for batches of any size.
func subtract(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	in := tensor.List(inputs)
	a, err := tensor.Values[float32](in.Get("a"))
	if err != nil {
		return nil, err
	}
	b, err := tensor.Values[float32](in.Get("b"))
	if err != nil {
		return nil, err
	}
	difference := make([]float32, len(a))
	for i := range difference {
		difference[i] = a[i] - b[i]
	}
	out, err := tensor.New("difference", in[0].Shape, difference)
	return []tensor.Tensor{out}, err
}

func main() {
	address := flag.String("http", "localhost:8000", "where to listen")
	models := flag.String("models", "", "a model repository to serve as well")
	flag.Parse()

	server := &neso.Server{HTTP: neso.HTTP{Address: *address}, NoRepository: *models == ""}
	if *models != "" {
		server.ModelRepositories, server.Backends = []string{*models}, all.Drivers(all.Options{})
	}
	four := tensor.Shape{4}
	err := server.Bind(neso.Model{
		Name:         "subtract",
		Inputs:       []backend.IO{{Name: "a", Datatype: tensor.FP32, Dims: four}, {Name: "b", Datatype: tensor.FP32, Dims: four}},
		Outputs:      []backend.IO{{Name: "difference", Datatype: tensor.FP32, Dims: four}},
		MaxBatchSize: 32, // requests that come together are one call of the function
	}, subtract)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := server.Run(ctx); err != nil { // serves until the signal, drains, closes
		log.Fatal(err)
	}
}
