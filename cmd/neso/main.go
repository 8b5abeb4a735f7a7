// Command neso is an inference server; see `neso --help`.
package main

import (
	"context"
	"os"

	"github.com/nesoserve/neso/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), cli.Env{Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr}))
}
