package bound

import (
	"os"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
)

// Inherit returns the channels that this process was started with: the ends of two pipes of
// the process that started it, by their handles.
func Inherit(control, descriptors int) (*os.File, *os.File, error) {
	return channel.InheritedAt(control, descriptors)
}
