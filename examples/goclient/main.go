// Command goclient asks a server of examples/models by the package client:
// docs/use/go-client.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

func main() {
	address := flag.String("url", "localhost:8000", "the server: host:port, http(s)://..., unix:/path, grpc(s)://host:port, grpc+unix:/path")
	ca := flag.String("ca", "", "a file with the authority of a server with TLS (PEM)")
	flag.Parse()

	c := client.New(*address)
	defer c.Close()
	c.Key = os.Getenv("NESO_KEY")                    // "Authorization: Bearer ..."
	c.Retry = client.Retry{Attempts: 4}              // a server that is full, or not there yet
	config, err := client.TLSFiles{CA: *ca}.Config() // also Cert and Key, as which to come
	if err != nil {
		log.Fatal(err)
	}
	c.TLS = config
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, ask := range []func(context.Context, *client.Client) error{about, sum, total, words} {
		if err := ask(ctx, c); err != nil {
			log.Fatal(err)
		}
	}
	_, err = c.Infer(ctx, &client.Request{Model: "nobody"})
	if answer, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println("error", answer.Code, answer.Message)
	}
}

// about prints what a model takes.
func about(ctx context.Context, c *client.Client) error {
	ready, err := c.ModelReady(ctx, "add_sub", "")
	if err != nil {
		return err
	}
	model, err := c.ModelMetadata(ctx, "add_sub", "")
	if err != nil {
		return err
	}
	fmt.Println("ready", ready, model.Inputs[0].Name, model.Inputs[0].Datatype, model.Inputs[0].Shape)
	return nil
}

// sum sends two tensors of numbers.
func sum(ctx context.Context, c *client.Client) error {
	a := client.Tensor[float32]{Name: "INPUT0", Shape: tensor.Shape{1, 4}, Values: []float32{1, 2, 3, 4}}
	b := client.Tensor[float32]{Name: "INPUT1", Shape: tensor.Shape{1, 4}, Values: []float32{10, 20, 30, 40}}
	resp, err := c.Infer(ctx, &client.Request{Model: "add_sub", Inputs: []client.Input{a.Input(), b.Input()}})
	if err != nil {
		return err
	}
	out, err := client.Read[float32](resp, "OUTPUT0")
	fmt.Println("sum", out.Shape, out.Values)
	return err
}

// total sends the steps of a sequence, whose state the server keeps.
func total(ctx context.Context, c *client.Client) error {
	for i, value := range []float32{1, 2, 4} {
		x := client.Tensor[float32]{Name: "VALUE", Shape: tensor.Shape{1, 1}, Values: []float32{value}}
		resp, err := c.Infer(ctx, &client.Request{
			Model: "running_total", Inputs: []client.Input{x.Input()}, Timeout: time.Second, // in the queue
			Sequence: &client.Sequence{Name: fmt.Sprint("go-", os.Getpid()), Start: i == 0, End: i == 2},
		})
		if err != nil {
			return err
		}
		out, err := client.Read[float32](resp, "TOTAL")
		if err != nil {
			return err
		}
		fmt.Println("total", out.Values[0])
	}
	return nil
}

// words prints the responses of a decoupled model as they come.
func words(ctx context.Context, c *client.Client) error {
	text := client.Tensor[string]{Name: "text_input", Shape: tensor.Shape{1}, Values: []string{"one two"}}
	q := &client.Request{Model: "words", Inputs: []client.Input{text.Input()}}
	for resp, err := range c.InferStream(ctx, q) {
		if err != nil {
			return err
		}
		word, err := client.Read[string](resp, "text_output")
		if err != nil {
			return err
		}
		fmt.Println("word", word.Values[0])
	}
	return nil
}
