package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

func TestUsageOfModelsAndInstances(t *testing.T) {
	c := &Conn{}
	say := func(model, instance uint32, usage ...backend.MemoryUsage) {
		t.Helper()
		if err := c.usage.take(&wire.MemoryBody{Model: model, Instance: instance, Usage: usage}); err != nil {
			t.Fatal(err)
		}
	}
	cpu := func(bytes uint64) backend.MemoryUsage { return backend.MemoryUsage{Type: "CPU", Bytes: bytes} }
	reads := func(model uint32, instances []uint32, ok bool, want ...backend.MemoryUsage) {
		t.Helper()
		got, said := c.ReportedMemory(model, instances)
		if d := cmp.Diff(want, got); d != "" || said != ok {
			t.Errorf("model %d: said %t, %s", model, said, d)
		}
	}
	reads(0, []uint32{1}, false)
	say(0, 0, cpu(1))
	say(0, 1, cpu(9))
	say(0, 1, cpu(10))
	say(3, 2, cpu(100)) // the number of an instance is its own, whatever its model's is
	say(3, 0)
	reads(0, []uint32{1}, true, cpu(11))
	reads(3, []uint32{2}, true, cpu(100))
	reads(4, nil, false)
	c.ForgetMemory(3, 2)
	reads(3, []uint32{2}, true)
	c.ForgetMemory(3, 0)
	reads(3, []uint32{2}, false)
}

// What a process may say is bounded, whatever it is: nothing is kept of what is refused.
func TestUsageIsBounded(t *testing.T) {
	figures := func(n int, kind string) []backend.MemoryUsage {
		return slices.Repeat([]backend.MemoryUsage{{Type: kind, Bytes: 1}}, n)
	}
	c, endless := &Conn{}, strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		name  string
		usage []backend.MemoryUsage
		want  string
	}{
		{"as many as there may be", figures(wire.MaxMemoryUsage, "GPU"), ""},
		{"of no known type of memory", figures(1, "<invalid>"), ""},
		{"too many", figures(wire.MaxMemoryUsage+1, "CPU"), "4097 figures of memory usage, at most 4096"},
		{"another type", append(figures(1, "CPU"), figures(1, endless)...), "figure 1 of memory usage has the type '" + endless[:40] + "', want"},
		{"no type", figures(1, ""), "figure 0 of memory usage has the type ''"},
	} {
		err := c.usage.take(&wire.MemoryBody{Model: 7, Usage: test.usage})
		_, said := c.ReportedMemory(7, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || said != (err == nil) {
			t.Errorf("%s: %v, said %t", test.name, err, said)
		}
		c.ForgetMemory(7, 0)
	}
	for i := range uint32(mostFigures / wire.MaxMemoryUsage) {
		if err := c.usage.take(&wire.MemoryBody{Model: i, Usage: figures(wire.MaxMemoryUsage, "CPU")}); err != nil {
			t.Fatal(err)
		}
	}
	err := c.usage.take(&wire.MemoryBody{Model: 99, Usage: figures(1, "CPU")})
	if err == nil || !strings.Contains(err.Error(), "more than 65536 figures") {
		t.Errorf("more figures than are kept: %v", err)
	}
	if err := c.usage.take(&wire.MemoryBody{Model: 1, Usage: figures(wire.MaxMemoryUsage, "CPU")}); err != nil {
		t.Errorf("in place of others: %v", err)
	}
	c = &Conn{}
	for i := range uint32(mostParts + 1) {
		if err := c.usage.take(&wire.MemoryBody{Instance: i + 1}); (err == nil) != (i < mostParts) {
			t.Fatalf("part %d: %v", i, err)
		}
	}
}
