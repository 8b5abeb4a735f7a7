package main

import (
	"context"
	"net/http"
	_ "net/http/pprof"
	"os"

	"github.com/nesoserve/neso/internal/cli"
)

func main() {
	go http.ListenAndServe("127.0.0.1:18999", nil)
	os.Exit(cli.Main(context.Background(), cli.Env{Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr}))
}
