package python

import (
	"testing"
)

func TestIdentity(t *testing.T) {
	m := mustLoad(t, identity, testOptions{})
	resp := m.infer(floats("IN", 1, 2))
	if got, want := describe(resp), "OUT FP32 [2] 0000803f00000040;"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	resp.Release()
}
