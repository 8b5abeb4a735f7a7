package segment

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLentToWriteTo: the descriptor that a worker gets can be mapped to read
// only.
func TestLentToWriteTo(t *testing.T) {
	s, err := New(0, 1<<16, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file, err := s.ReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := Map(file, 1<<16, true); err == nil || !strings.Contains(err.Error(), unix.EACCES.Error()) {
		t.Errorf("got %v", err)
	}
}
