// Package source says what a place that stores models can do. The packages
// below it are such places: local directories, and files that came with a
// request. They observe and hand out directories; they decide nothing.
package source

import "context"

// Source is a place that stores model directories.
type Source interface {
	// Path names the place as the user did.
	Path() string
	// List returns the names of all model directories, sorted.
	List(ctx context.Context) ([]string, error)
	// Has reports whether the place holds a directory of that name.
	Has(ctx context.Context, model string) (bool, error)
	// Marks returns the names of all model directories, each with a mark of what it
	// holds: as long as that is the same, nothing in it has changed.
	Marks(ctx context.Context) (map[string]string, error)
	// Fetch makes one model available as a local directory. It fails when there is
	// none of that name.
	Fetch(ctx context.Context, model string) (Directory, error)
}

// Directory is a model's directory on this machine, valid until Release.
type Directory struct {
	Path string
	// Renamed says that the model is served under another name than the
	// directory's, whatever its configuration calls it.
	Renamed bool
	// Release gives back what Fetch made for it; it may be nil. It is called once.
	Release func() error
	// Origin names what Path is a copy of; empty when it is the original.
	Origin string
}
