// Package filestamp tells whether files have changed since they were last read.
package filestamp

import (
	"os"
	"slices"
	"time"
)

// Stamps are when files were changed last, and their sizes.
type Stamps []stamp

type stamp struct {
	modified time.Time
	size     int64
}

// Of returns the present stamps of files, in their order.
func Of(files ...string) (Stamps, error) {
	stamps := make(Stamps, len(files))
	for i, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, err
		}
		stamps[i] = stamp{info.ModTime(), info.Size()}
	}
	return stamps, nil
}

// Equal reports whether no file has changed between two looks.
func (s Stamps) Equal(other Stamps) bool {
	return slices.EqualFunc(s, other, func(x, y stamp) bool { return x.modified.Equal(y.modified) && x.size == y.size })
}
