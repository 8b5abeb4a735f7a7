package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/model"
)

// change makes the instances that a version gets beside those that it has. fits
// is false when it has to be loaded anew all the same.
func (m *maker) change(ctx context.Context, p *plan, version int64, there *model.Model) (change *model.Change, fits bool, err error) {
	err = instance.Guard(m.log, "change instances of model "+p.name, func() error {
		b, err := m.backendOf(ctx, p, version)
		if err != nil {
			return err
		}
		can, err := m.capabilities(ctx, p, version, b)
		if err != nil {
			fits = true
			return err
		}
		config, err := p.draftOf(version).ChangeInstances(there.Config(), m.o.GPUs, can)
		if err != nil {
			fits = true
			return err
		}
		if fits = there.CanChange(config); fits {
			change, err = there.Change(ctx, config)
		}
		return err
	})
	return change, fits, err
}
