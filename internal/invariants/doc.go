// Package invariants switches checks that are too dear for production: they
// exist only in builds with the tag `invariants`, which `make test` sets.
//
// Guard every use with `if invariants.Enabled`, a constant, so that the
// compiler drops the check and the evaluation of its arguments. Open on.go.
package invariants

import "fmt"

// Check panics with the formatted text when ok is false. It does so in every
// build; callers guard it with Enabled.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
