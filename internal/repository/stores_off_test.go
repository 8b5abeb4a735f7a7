//go:build edge

package repository

import (
	"strings"
	"testing"
)

func TestLeftOut(t *testing.T) {
	for _, uri := range []string{"s3://bucket/models", "gs://bucket/models", "as://account/container/models"} {
		_, err := Open(Options{Paths: []string{uri}})
		if err == nil || !strings.Contains(err.Error(), uri) || !strings.Contains(err.Error(), "built without object stores") {
			t.Errorf("%s: got %v, want an error that names it and the build", uri, err)
		}
	}
}
