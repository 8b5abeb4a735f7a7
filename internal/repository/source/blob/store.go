package blob

import (
	"context"
	"hash"
	"io"
	"time"
)

// object is one object as a listing shows it.
type object struct {
	key      string
	size     int64
	etag     string // as the store wrote it; changes with the content
	modified time.Time
	version  string // GCS: the generation
	sum      checksum
}

// checksum is what a store says of an object's content; the zero value is
// nothing.
type checksum struct {
	name string // of the algorithm, for messages
	make func() hash.Hash
	want []byte
}

// summed is the content of an object with what the store says of it.
type summed struct {
	io.ReadCloser
	sum checksum
}

// listing is one page of a listing.
type listing struct {
	objects  []object
	prefixes []string // ending in a slash; only of a shallow listing
	next     string   // where the next page begins; empty at the end
}

// store is what the three kinds of object stores can do.
type store interface {
	// list returns one page of what begins with prefix, from token on. A shallow
	// listing ends names at the first slash after prefix.
	list(ctx context.Context, prefix, token string, shallow bool, limit int) (listing, error)
	// read opens length bytes of o from offset on. It fails with a changedError
	// when the object is not the listed one any more. A reader of a whole object may be
	// a summed one.
	read(ctx context.Context, o object, offset, length int64) (io.ReadCloser, error)
	// checksum returns what the store knows about the content beyond the listing.
	checksum(ctx context.Context, o object) (checksum, error)
}
