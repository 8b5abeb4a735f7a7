//go:build !edge

package repository

import (
	"context"

	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/blob"
)

// openStore opens a repository in an object store.
func openStore(uri string, o *Options) (source.Source, error) {
	// It has a bound of its own.
	return blob.Open(context.Background(), uri, blob.Options{CacheDir: o.CacheDir, Patient: o.Patient})
}
