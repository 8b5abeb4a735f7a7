package repository

import (
	"slices"
	"strconv"
)

// notVersions are directories of a model that hold other things.
var notVersions = []string{"warmup", "initial_state", "configs"}

// ParseVersion reads the name of a directory as a version. The number is the
// leading digits, so `3-fixed` is version 3. ignored says, when ok is false,
// that the name deserves a warning: it is neither a version nor one of the
// directories that have another meaning.
func ParseVersion(name string) (version int64, ok, ignored bool) {
	if slices.Contains(notVersions, name) {
		return 0, false, false
	}
	digits := 0
	for digits < len(name) && name[digits] >= '0' && name[digits] <= '9' {
		digits++
	}
	if digits == 0 || name[0] == '0' && len(name) > 1 {
		return 0, false, true
	}
	version, err := strconv.ParseInt(name[:digits], 10, 64)
	if err != nil || version < 1 {
		return 0, false, true
	}
	return version, true, false
}
