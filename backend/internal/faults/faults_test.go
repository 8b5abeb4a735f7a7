package faults

import (
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestList(t *testing.T) {
	var l List
	l.Add(nil)
	if err := l.Err(); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	l.Add(backend.Errorf(backend.Unsupported, "a"))
	l.Add(nil)
	l.Add(backend.Errorf(backend.InvalidArg, "b"))
	if err := l.Err(); err.Error() != "a; b" || backend.AsError(err).Code != backend.Unsupported {
		t.Errorf("got %v", err)
	}
}
