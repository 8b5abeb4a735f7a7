package backend

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSumMemory(t *testing.T) {
	got := SumMemory(
		[]MemoryUsage{{"GPU", 1, 5}, {"CPU", 0, 100}, {"CPU", 0, 50}},
		nil,
		[]MemoryUsage{{"CPU", 0, 1}, {"CPU", 2, 7}, {"CPU_PINNED", 0, 0}},
	)
	want := []MemoryUsage{{"CPU", 0, 51}, {"CPU", 2, 7}, {"CPU_PINNED", 0, 0}, {"GPU", 1, 5}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
