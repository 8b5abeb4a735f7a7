package guest

import (
	"testing"

	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

type freed int

func (f *freed) ReleaseBuffer(*tensor.Buffer) { *f++ }

// A library that comes back when the connection has ended gives its outputs back once.
func TestMemoryThatWasGivenIsGivenBackOnce(t *testing.T) {
	for _, c := range []struct {
		name           string
		before, behind bool // the connection ends before the answer is made, or before it is sent
	}{{"unsent", false, false}, {"late", true, false}, {"between", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			var gone freed
			g := &Guest{}
			beside := &near.Near{}
			g.Beside(beside)
			k := g.Give(tensor.NewBuffer(make([]byte, 8), &gone))
			if c.before {
				beside.End()
			}
			place := k.located()
			if found := place.Offset != 0; place.Segment != wire.NearSegment || found == c.before {
				t.Errorf("it lies at %+v", place)
			}
			if c.behind {
				beside.End()
			}
			k.Free() // as what could not be sent is
			k.Free()
			if beside.End(); gone != 1 {
				t.Errorf("given back %d times, want once", gone)
			}
		})
	}
}
