package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// run serves the models "id", which gives back what it gets, and "repeat", which is
// decoupled, to an example, and prints its error.
func run(example func(ctx context.Context, http, grpc string) error) {
	srv, ctx := newServer(), context.Background()
	defer srv.Close()
	err := errors.Join(srv.Start(ctx), loadModels(ctx, srv))
	if err == nil {
		err = example(ctx, srv.Addresses()["http"], "grpc://"+srv.Addresses()["grpc"])
	}
	if err != nil {
		fmt.Println(err)
	}
}

// One program, over HTTP and over gRPC.
func ExampleClient_Infer() {
	run(func(ctx context.Context, http, grpc string) error {
		for _, address := range []string{http, grpc} {
			c := client.New(address)
			defer c.Close()
			x := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1, 3}, Values: []int32{1, 2, 3}}
			resp, err := c.Infer(ctx, &client.Request{Model: "id", Inputs: []client.Input{x.Input()}, Outputs: []string{"X"}})
			if err != nil {
				return err
			}
			y, err := client.Read[int32](resp, "X")
			fmt.Println(y.Shape, y.Values, err)
		}
		return nil
	})
	// Output:
	// [1,3] [1 2 3] <nil>
	// [1,3] [1 2 3] <nil>
}

// The responses of a decoupled model, as they come.
func ExampleClient_InferStream() {
	run(func(ctx context.Context, _, grpc string) error {
		c := client.New(grpc)
		defer c.Close()
		request := &client.Request{Model: "repeat", Inputs: []client.Input{
			client.Tensor[int32]{Name: "IN", Shape: tensor.Shape{3}, Values: []int32{7, 8, 9}}.Input(),
			client.Tensor[uint32]{Name: "DELAY", Shape: tensor.Shape{3}, Values: []uint32{0, 0, 0}}.Input(),
			client.Tensor[uint32]{Name: "WAIT", Shape: tensor.Shape{1}, Values: []uint32{0}}.Input(),
		}}
		for resp, err := range c.InferStream(ctx, request) {
			if err != nil {
				return err
			}
			out, err := client.Read[int32](resp, "OUT")
			fmt.Println(out.Values, err)
		}
		return nil
	})
	// Output:
	// [7] <nil>
	// [8] <nil>
	// [9] <nil>
}

// Many requests share one stream; their responses have their IDs.
func ExampleClient_Stream() {
	run(func(ctx context.Context, _, grpc string) error {
		c := client.New(grpc)
		defer c.Close()
		stream, err := c.Stream(ctx)
		if err != nil {
			return err
		}
		defer stream.Close()
		for i := range 3 {
			x := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1, 1}, Values: []int32{int32(100 + i)}}
			q := &client.Request{Model: "id", ID: fmt.Sprint("r", i), Inputs: []client.Input{x.Input()}, Outputs: []string{"X"}}
			if err := stream.Send(q); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for resp, err := range stream.Responses() {
			if err != nil {
				return err
			}
			y, err := client.Read[int32](resp, "X")
			fmt.Println(resp.ID, y.Values, err)
		}
		return nil
	})
	// Output:
	// r0 [100] <nil>
	// r1 [101] <nil>
	// r2 [102] <nil>
}

// What a server answers is an *Error, with the status of HTTP and the code of gRPC.
func ExampleError() {
	run(func(ctx context.Context, http, _ string) error {
		c := client.New(http)
		defer c.Close()
		_, err := c.Infer(ctx, &client.Request{Model: "nobody"})
		if answer, ok := errors.AsType[*client.Error](err); ok {
			fmt.Println(answer.Status, answer.Code, answer.Message)
		}
		return nil
	})
	// Output: 404 NotFound Request for unknown model: 'nobody' is not found
}

// Repository, statistics and metadata.
func ExampleClient_Load() {
	run(func(ctx context.Context, _, grpc string) error {
		c := client.New(grpc)
		defer c.Close()
		files := map[string][]byte{"1/data": nil}
		if err := c.Load(ctx, "repeat", &client.Override{Config: repeatConfig, Files: files}); err != nil {
			return err
		}
		ready, err := c.ModelReady(ctx, "repeat", "")
		fmt.Println(ready, err)
		meta, err := c.ModelMetadata(ctx, "repeat", "")
		if err != nil {
			return err
		}
		for _, in := range meta.Inputs {
			fmt.Println(in.Name, in.Datatype, in.Shape)
		}
		stats, err := c.ModelStatistics(ctx, "repeat", "")
		if err != nil {
			return err
		}
		fmt.Println(stats[0].InferenceCount)
		return nil
	})
	// Output:
	// true <nil>
	// IN INT32 [-1]
	// DELAY UINT32 [-1]
	// WAIT UINT32 [1]
	// 0
}
