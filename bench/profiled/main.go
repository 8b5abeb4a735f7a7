// Command profiled is the neso command with a profile of its processor time, from
// which `make profile` makes cmd/neso/neso.pgo. Each process writes one file into
// the directory NESO_PROFILES when it ends.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"

	"github.com/nesoserve/neso/internal/cli"
)

func main() {
	os.Exit(profiled(os.Getenv("NESO_PROFILES")))
}

func profiled(dir string) int {
	file, err := os.Create(filepath.Join(dir, strconv.Itoa(os.Getpid())+".pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "profiled: NESO_PROFILES has to name a directory for profiles: %v\n", err)
		return 2
	}
	defer file.Close()
	defer pprof.StopCPUProfile()
	return cli.Main(context.Background(), cli.Env{Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr})
}
