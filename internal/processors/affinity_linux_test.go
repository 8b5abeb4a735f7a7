package processors

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// here returns the processors of the calling thread.
func here(t *testing.T) (all []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all
}

func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	everywhere := here(t)
	last := everywhere[len(everywhere)-1:]
	node := 0
	fault := errors.New("the function's own")
	for _, p := range []*Affinity{NewAffinity(last, nil), NewAffinity(last, &node)} {
		err := p.Run(func() error {
			if got := here(t); !slices.Equal(got, last) {
				t.Errorf("runs on %v, want %v", got, last)
			}
			return fault
		})
		if err != fault { //nolint:errorlint // the very one
			if p.node != nil && errors.Is(err, unix.ENOSYS) {
				continue // a kernel without NUMA
			}
			t.Error(err)
		}
		if got := here(t); !slices.Equal(got, everywhere) {
			t.Errorf("afterwards on %v, want %v", got, everywhere)
		}
	}
	ran := false
	for _, c := range []struct {
		p    *Affinity
		want string
	}{
		{NewAffinity([]int{8000}, nil), "Unable to set NUMA thread affinity: Invalid argument"},
		{NewAffinity([]int{1 << 30}, nil), "Unable to set NUMA thread affinity: Invalid argument"},
		{NewAffinity(nil, new(int(1000))), "Unable to set NUMA memory policy: "},
	} {
		if err := c.p.Run(func() error { ran = true; return nil }); ran || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if got := here(t); !slices.Equal(got, everywhere) {
		t.Errorf("after failures on %v, want %v", got, everywhere)
	}
	if p := NewAffinity(nil, nil); p != nil || p.Bind() != nil || p.Run(func() error { ran = true; return nil }) != nil || !ran {
		t.Error("no place is one")
	}
}

func BenchmarkAffinity(b *testing.B) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		b.Fatal(err)
	}
	node := 0
	for name, p := range map[string]*Affinity{"nowhere": nil, "processors": NewAffinity([]int{0}, nil), "memory": NewAffinity(nil, &node)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = p.Run(func() error { return nil })
			}
		})
	}
}
