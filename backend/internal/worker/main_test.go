package worker

import (
	"os"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// scratch is a folder that the tests may make, once.
var scratch string

func TestMain(m *testing.M) {
	code := nesotest.Run(m)
	if scratch != "" {
		_ = os.RemoveAll(scratch)
	}
	os.Exit(code)
}
