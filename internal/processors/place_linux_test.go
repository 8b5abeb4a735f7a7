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

func TestPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	everywhere := here(t)
	last := everywhere[len(everywhere)-1:]
	node := 0
	fault := errors.New("the function's own")
	for _, p := range []*Place{NewPlace(last, nil), NewPlace(last, &node)} {
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
		p    *Place
		want string
	}{
		{NewPlace([]int{8000}, nil), "Unable to set NUMA thread affinity: Invalid argument"},
		{NewPlace([]int{1 << 30}, nil), "Unable to set NUMA thread affinity: Invalid argument"},
		{NewPlace(nil, new(int(1000))), "Unable to set NUMA memory policy: "},
	} {
		if err := c.p.Run(func() error { ran = true; return nil }); ran || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if got := here(t); !slices.Equal(got, everywhere) {
		t.Errorf("after failures on %v, want %v", got, everywhere)
	}
	if p := NewPlace(nil, nil); p != nil || p.Bind() != nil || p.Run(func() error { ran = true; return nil }) != nil || !ran {
		t.Error("no place is one")
	}
}

func BenchmarkPlace(b *testing.B) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		b.Fatal(err)
	}
	node := 0
	for name, p := range map[string]*Place{"nowhere": nil, "processors": NewPlace([]int{0}, nil), "memory": NewPlace(nil, &node)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = p.Run(func() error { return nil })
			}
		})
	}
}
