package responsecache

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
)

// minLocal is the least size of a local cache. The peer's library refuses what
// it cannot put its own bookkeeping into; so little keeps no answer at all.
const minLocal = 128

// Open returns the store that the options name. Its errors are the peer's where
// it has one.
func Open(ctx context.Context, o Options) (Store, error) {
	switch o.Name {
	case "local":
		return openLocal(o)
	case "redis":
		return openRedis(ctx, o)
	}
	return openLibrary(ctx, o)
}

func openLocal(o Options) (Store, error) {
	text, ok := o.Settings["size"]
	if !ok {
		return nil, backend.Errorf(backend.InvalidArg,
			"Failed to initialize LocalCache: config didn't contain a valid 'size' field. (%s local,size=<bytes>)", o.Words.Name("cache-config"))
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < minLocal || size > math.MaxInt64/2 {
		return nil, backend.Errorf(backend.InvalidArg, "Failed to initialize LocalCache: "+o.Words.Name("cache-config")+
			" local,size=%s is not a number of bytes from %d on", text, minLocal)
	}
	unknown(o, []string{"size"})
	return newLocal(size), nil
}

// unknown reports settings that mean nothing, once. They are no error, as with
// the peer.
func unknown(o Options, known []string) {
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		if !slices.Contains(known, name) {
			o.Logger.Warn("setting of the response cache has no effect", "option", o.Words.Name("cache-config")+" "+o.Name+","+name, "because",
				"there is no such setting")
		}
	}
}
