//go:build edge

package repository

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
)

// openStore says that this build has no object stores.
func openStore(uri string, _ *Options) (source.Source, error) {
	return nil, backend.Errorf(backend.Unsupported, "model repository %s: this program has been built without object stores (the tag edge); "+
		"expected a directory", uri)
}
