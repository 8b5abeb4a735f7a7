//go:build !edge

package repository

import (
	"context"

	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/blob"
)

// openStore opens a repository in an object store.
func openStore(uri, cacheDir string) (source.Source, error) {
	return blob.Open(context.Background(), uri, blob.Options{CacheDir: cacheDir}) // it has a bound of its own
}
