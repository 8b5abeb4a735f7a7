// Package client talks to a running inference server over the KServe v2 protocol
// with Triton's extensions, over HTTP or gRPC: health, metadata, statistics, the
// model repository, settings, shared memory, inference and streams. It works
// against Neso, Triton, and other servers of that protocol.
//
//	c := client.New("localhost:8000") // or "grpc://localhost:8001"
//	defer c.Close()
//	a := client.Tensor[float32]{Name: "INPUT0", Shape: tensor.Shape{4}, Values: []float32{1, 2, 3, 4}}
//	b := client.Tensor[float32]{Name: "INPUT1", Shape: tensor.Shape{4}, Values: []float32{5, 6, 7, 8}}
//	resp, err := c.Infer(ctx, &client.Request{Model: "add_sub", Inputs: []client.Input{a.Input(), b.Input()}})
//	...
//	sum, err := client.Read[float32](resp, "OUTPUT0")
//
// The address says how the two speak; what a program does with a Client is the same
// over both. Every call takes a context, whose end and deadline end it; the server
// then gives up the request, too.
//
// # Memory
//
// Tensors are not copied where that can be avoided. The Data of an input belongs to
// the caller, and must stay as it is until Infer has returned without an error. After
// an error, of a context that has ended among others, what sends may read it still:
// leave it to the garbage collector. The Data of outputs are parts of one buffer that
// holds the whole answer; it is the caller's, and stays as long as one of them does.
//
// Open client.go first, then infer.go; transport.go is what HTTP and gRPC have in
// common.
package client
