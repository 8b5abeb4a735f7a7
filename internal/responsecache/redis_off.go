//go:build edge

package responsecache

import (
	"context"

	"github.com/nesoserve/neso/backend"
)

// openRedis says that this build has no Redis.
func openRedis(_ context.Context, o Options) (Store, error) {
	return nil, backend.Errorf(backend.Unsupported,
		"Failed to initialize RedisCache: this program has been built without Redis (the tag edge); "+
			"expected %s local,size=<bytes>", o.Words.Name("cache-config"))
}

// SilenceDriver does nothing: there is no driver.
func SilenceDriver() {}
