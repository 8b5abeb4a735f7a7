//go:build !edge

package repository

import (
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestOpenWithoutABucket(t *testing.T) {
	_, err := Open(Options{Paths: []string{"s3://"}})
	wantError(t, err, backend.Internal, "No bucket name found in path: s3://")
}
