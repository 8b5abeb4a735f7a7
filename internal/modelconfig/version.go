package modelconfig

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// ParseVersion reads the name of a version directory: its leading digits, so that
// "3-fixed" is version 3, without leading zeros. Other directories, such as
// "warmup" or "configs", are no versions.
func ParseVersion(name string) (int64, bool) {
	digits := 0
	for digits < len(name) && isDigit(name[digits]) {
		digits++
	}
	if digits == 0 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(name[:digits], 10, 64)
	if err != nil || n < 1 {
		return 0, false
	}
	return n, true
}

// NoModel reports whether a directory of that name is no model, nor a version, in
// whatever repository it lies: a hidden one, and those that file systems, Python
// and notebooks leave behind.
func NoModel(name string) bool {
	switch name {
	case "lost+found", "__pycache__", "__MACOSX", "@eaDir", "System Volume Information", "$RECYCLE.BIN":
		return true
	}
	return strings.HasPrefix(name, ".")
}

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
