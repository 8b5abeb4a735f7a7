// Command sbom prints what a Go program is made of, as a list in SPDX 2.3, for
// `make release`.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nesoserve/neso/internal/image"
)

func main() {
	title := flag.String("title", "neso", "the name of the list")
	seconds := flag.Int64("time", 0, "its time, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: sbom [-title NAME] [-time SECONDS] PROGRAM")
		os.Exit(2)
	}
	packages, err := image.GoPackages(flag.Arg(0))
	var text []byte
	if err == nil {
		text, err = image.SBOM(*title, time.Unix(*seconds, 0), packages)
	}
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}
