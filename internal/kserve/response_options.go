package kserve

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// Labeled is a model that may know the names of its classes.
type Labeled interface {
	// Labels returns the class labels of an output, or nil.
	Labels(output string) []string
}

// ApplyResponseOptions replaces the outputs of resp for which classes were asked, and
// moves those that have a place in shared memory there, which leaves them empty.
func ApplyResponseOptions(c *ResponseOptions, cfg *modelconfig.Config, m Labeled, resp *backend.Response) *backend.Error {
	for i := range c.Outputs {
		want := &c.Outputs[i]
		if want.Classes == 0 && want.Region.IsZero() {
			continue
		}
		for j := range resp.Outputs {
			o := &resp.Outputs[j]
			if o.Name != want.Name {
				continue
			}
			if !want.Region.IsZero() {
				if err := want.Place(o); err != nil {
					return err
				}
				o.Data = nil
				continue
			}
			if err := Classify(o, want.Classes, cfg.MaxBatchSize > 0, m.Labels(o.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
