package repository

import (
	"slices"

	"github.com/nesoserve/neso/internal/repository/layout"
)

// notVersions are directories of a model that hold other things.
var notVersions = []string{"warmup", "initial_state", "configs"}

// ParseVersion reads the name of a directory as a version. The number is the
// leading digits, so `3-fixed` is version 3. ignored says, when ok is false,
// that the name deserves a warning: it is neither a version nor one of the
// directories that have another meaning.
func ParseVersion(name string) (version int64, ok, ignored bool) {
	if slices.Contains(notVersions, name) || layout.NoModel(name) {
		return 0, false, false
	}
	version, ok = layout.ParseVersion(name)
	return version, ok, !ok
}
