package repository

import (
	"slices"
	"strconv"

	"github.com/nesoserve/neso/internal/modelconfig"
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

// Select applies a version policy to the versions that exist, given in
// ascending order. It returns those to serve, ascending, and those that the
// policy names but that do not exist.
func Select(policy modelconfig.VersionPolicy, have []int64) (serve, missing []int64) {
	switch {
	case policy.All:
		return slices.Clone(have), nil
	case len(policy.Specific) > 0:
		want := slices.Compact(slices.Sorted(slices.Values(policy.Specific)))
		for _, v := range want {
			if slices.Contains(have, v) {
				serve = append(serve, v)
			} else {
				missing = append(missing, v)
			}
		}
		return serve, missing
	default:
		n := max(1, policy.Latest)
		return slices.Clone(have[max(0, len(have)-n):]), nil
	}
}
