package modelconfig

import (
	"cmp"
	"slices"
)

// Select returns which of the available versions the policy serves, ascending,
// and the versions that it names but that are not available.
func (p VersionPolicy) Select(available []int64) (serve, missing []int64) {
	all := slices.Clone(available)
	slices.SortFunc(all, cmp.Compare)
	all = slices.Compact(all)
	switch {
	case p.All:
		return all, nil
	case len(p.Specific) > 0:
		for _, v := range p.Specific {
			if _, ok := slices.BinarySearch(all, v); !ok {
				missing = append(missing, v)
			} else if !slices.Contains(serve, v) {
				serve = append(serve, v)
			}
		}
		slices.SortFunc(serve, cmp.Compare)
		return serve, missing
	default:
		return all[max(0, len(all)-p.Latest):], nil
	}
}

// Any reports whether there are versions that the policy would serve.
func (p VersionPolicy) Any() bool { return p.All || p.Latest > 0 || len(p.Specific) > 0 }
