//go:build cgo && profiled

package native

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
)

// With the tag profiled, each neso-host writes a profile of its processor time into the
// directory NESO_PROFILES when it ends: `make profile` makes
// cmd/libtritonserver/libtritonserver.pgo of them.
func init() {
	profile = func() func() {
		file, err := os.Create(filepath.Join(os.Getenv("NESO_PROFILES"), "host-"+strconv.Itoa(os.Getpid())+".pprof"))
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "profiled: NESO_PROFILES has to name a directory for profiles: %v\n", err)
			return func() {}
		}
		return func() {
			pprof.StopCPUProfile()
			_ = file.Close()
		}
	}
}
