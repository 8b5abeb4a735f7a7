package procfs

import (
	"testing"
	"time"
)

func TestUsed(t *testing.T) {
	line := "42 (a b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 7 0 100 1000000 25 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0"
	u, err := parseUsed([]byte(line))
	if err != nil || u.CPU != 2*time.Second || u.Threads != 7 || u.Resident == 0 || u.Resident%25 != 0 {
		t.Errorf("got %+v, %v", u, err)
	}
	for _, bad := range []string{"", "42 (x) S", "42 (x) S 1 42 42 0 -1 4194560 1 2 3 4 -1 50 0 0 20 0 7 0 100 1000000 25 1"} {
		if u, err := parseUsed([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, u)
		}
	}
}
