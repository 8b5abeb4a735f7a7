package model

import (
	"testing"
	"time"
)

func TestWorkerCPU(t *testing.T) {
	type used = map[int]time.Duration
	var u workerCPU
	for i, step := range []struct {
		now  used
		want time.Duration
		ok   bool
	}{
		{used{}, 0, false},
		{used{7: 2}, 2, true},
		{used{7: 5, 8: 1}, 6, true},
		{used{8: 4}, 9, true},        // 7 has ended
		{used{}, 9, true},            // both have
		{used{7: 3}, 12, true},       // a new process with the number of one long gone
		{used{7: 1, 9: 1}, 14, true}, // and with that of one that was there a moment ago
	} {
		if got, ok := u.update(step.now); got != step.want || ok != step.ok {
			t.Errorf("step %d: %d %t, want %d %t", i, got, ok, step.want, step.ok)
		}
	}
}
