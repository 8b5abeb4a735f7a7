package worker

import (
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

	if err := c.usage.take(&wire.MemoryBody{Model: 5, Usage: make([]backend.MemoryUsage, mostFigures)}); err == nil {
		t.Error("more figures than are kept were taken")
	}
	reads(5, nil, false)
	say(5, 0, make([]backend.MemoryUsage, mostFigures-2)...)
	say(5, 0, make([]backend.MemoryUsage, mostFigures-2)...)
}
