package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/tensor"
)

// echo is a server of one method, which gives inputs back as they came, so that what
// is measured is the client's share and what both need.
func echo(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(1<<30), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		in := &inferencepb.ModelInferRequest{}
		if err := stream.RecvMsg(in); err != nil {
			return err
		}
		out := &inferencepb.ModelInferResponse{ModelName: in.GetModelName(), RawOutputContents: in.GetRawInputContents()}
		for _, t := range in.GetInputs() {
			out.Outputs = append(out.Outputs, &inferencepb.ModelInferResponse_InferOutputTensor{
				Name: t.GetName(), Datatype: t.GetDatatype(), Shape: t.GetShape(),
			})
		}
		return stream.SendMsg(out)
	}))
	go func() { _ = srv.Serve(listener) }()
	b.Cleanup(srv.Stop)
	return listener.Addr().String()
}

// BenchmarkInfer compares a request of this client with one of the generated code
// over grpc-go, at the same server.
func BenchmarkInfer(b *testing.B) {
	address := echo(b)
	for _, size := range []int{64, 64 << 10, 4 << 20} {
		values := make([]float32, size/4)
		b.Run(fmt.Sprintf("client/%d", size), func(b *testing.B) { benchmarkClient(b, "grpc://"+address, values) })
		b.Run(fmt.Sprintf("generated/%d", size), func(b *testing.B) { benchmarkGenerated(b, address, values) })
	}
}

func benchmarkClient(b *testing.B, address string, values []float32) {
	c := client.New(address)
	defer c.Close()
	b.SetBytes(int64(4 * len(values)))
	b.ReportAllocs()
	for b.Loop() {
		x := client.Tensor[float32]{Name: "X", Shape: tensor.Shape{int64(len(values))}, Values: values}
		resp, err := c.Infer(context.Background(), &client.Request{Model: "id", Inputs: []client.Input{x.Input()}})
		if err != nil {
			b.Fatal(err)
		}
		if got, err := client.Read[float32](resp, "X"); err != nil || len(got.Values) != len(values) {
			b.Fatal(err)
		}
	}
}

func benchmarkGenerated(b *testing.B, address string, values []float32) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	b.SetBytes(int64(4 * len(values)))
	b.ReportAllocs()
	for b.Loop() {
		x, err := tensor.New("X", tensor.Shape{int64(len(values))}, values)
		if err != nil {
			b.Fatal(err)
		}
		in := &inferencepb.ModelInferRequest{
			ModelName:        "id",
			Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "X", Datatype: "FP32", Shape: x.Shape}},
			RawInputContents: [][]byte{x.Data},
		}
		out := &inferencepb.ModelInferResponse{}
		if err := conn.Invoke(context.Background(), "/inference.GRPCInferenceService/ModelInfer", in, out); err != nil {
			b.Fatal(err)
		}
		x.Data = out.GetRawOutputContents()[0]
		if got, err := tensor.Values[float32](&x); err != nil || len(got) != len(values) {
			b.Fatal(err)
		}
	}
}

// BenchmarkInferHTTP is BenchmarkInfer over HTTP, at a server of ours.
func BenchmarkInferHTTP(b *testing.B) {
	srv := newServer()
	defer srv.Close()
	if err := errors.Join(srv.Start(b.Context()), loadModels(b.Context(), srv)); err != nil {
		b.Fatal(err)
	}
	c := client.New(srv.Addresses()["http"])
	defer c.Close()
	for _, size := range []int{64, 64 << 10, 4 << 20} {
		values := make([]int32, size/4)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				x := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1, int64(len(values))}, Values: values}
				q := &client.Request{Model: "id", Inputs: []client.Input{x.Input()}, Outputs: []string{"X"}}
				if _, err := c.Infer(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
