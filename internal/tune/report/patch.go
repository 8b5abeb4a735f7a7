package report

import (
	"path"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/overlay"
)

// edited is the configuration with the changes.
func edited(m *checkpoint.Model, changes []edit.Change) ([]byte, error) {
	return edit.Text([]byte(m.Config), path.Join(m.Name, overlay.Filename), changes)
}
