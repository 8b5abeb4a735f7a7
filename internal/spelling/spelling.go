// Package spelling owns what is said of a name that is not known: which one may
// have been meant.
package spelling

import (
	"log/slog"
	"strings"
)

// longest is how long a name may be that is compared: nobody misspells longer
// ones.
const longest = 64

// Nearest returns the candidate that is most like name, upper and lower case
// alike, or "" when none is like it.
func Nearest(name string, candidates []string) string {
	if len(name) > longest {
		return ""
	}
	best, least := "", max(2, len(name)/4)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < least && d < len(name) {
			best, least = c, d
		}
	}
	return best
}

// Meant is Nearest for a line of the log: the attribute "meant", which is left
// out when no candidate is like name.
func Meant(name string, candidates []string) slog.Attr {
	near := Nearest(name, candidates)
	if near == "" {
		return slog.Attr{}
	}
	return slog.String("meant", near)
}

// Known reports whether name is in the list, of which an entry that ends in *
// stands for all names that begin so.
func Known(name string, list []string) bool {
	for _, entry := range list {
		if prefix, any := strings.CutSuffix(entry, "*"); entry == name || any && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// distance counts the insertions, deletions, substitutions and transpositions of
// neighbours between a and b, where no piece is changed twice (optimal string
// alignment): most slips of fingers are one of these.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
