// Package faults owns the error of a load that has several reasons: users mend
// all of them at once.
package faults

import (
	"strings"

	"github.com/nesoserve/neso/backend"
)

// List collects what is wrong; the zero value is empty.
type List struct {
	code  backend.Code
	texts []string
}

// Add takes an error in, nil for none.
func (l *List) Add(err error) {
	if err == nil {
		return
	}
	if len(l.texts) == 0 {
		l.code = backend.AsError(err).Code
	}
	l.texts = append(l.texts, err.Error())
}

// Err returns all of it as one error with the code of the first, nil for
// nothing.
func (l *List) Err() error {
	if len(l.texts) == 0 {
		return nil
	}
	return backend.Errorf(l.code, "%s", strings.Join(l.texts, "; "))
}
