package cli

import (
	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/internal/grpcapi"
)

func protoCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "proto",
		Short: "Print the gRPC protocol as a .proto file, for generators of stubs",
		Long: `Prints service and messages of the gRPC protocol as one .proto file, from which
protoc and its plugins generate clients in C++, Java, Rust and other languages.`,
		Example: "  neso proto > inference.proto\n" +
			"  protoc --cpp_out=. --grpc_out=. --plugin=protoc-gen-grpc=$(which grpc_cpp_plugin) inference.proto",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return grpcapi.WriteProto(env.Stdout) },
	}
}
