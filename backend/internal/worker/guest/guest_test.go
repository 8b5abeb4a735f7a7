package guest

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// TestGuestRefusesDrop of what was not lent.
func TestGuestRefusesDrop(t *testing.T) {
	var m guestMemory
	m.init(nil)
	m.inputs[0] = []byte{}
	for _, number := range []uint32{0, wire.FirstLentSegment} {
		if err := m.drop(wire.AppendDrop(nil, number)[wire.HeaderSize:]); err == nil || !strings.Contains(err.Error(), "was not lent") {
			t.Errorf("%d: %v", number, err)
		}
	}
}
