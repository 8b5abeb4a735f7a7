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

// ClassifyOutputs replaces the outputs of resp for which classes were asked.
func ClassifyOutputs(c *Call, cfg *modelconfig.Config, m Labeled, resp *backend.Response) *backend.Error {
	for i := range c.Outputs {
		want := &c.Outputs[i]
		if want.Classes == 0 {
			continue
		}
		for j := range resp.Outputs {
			o := &resp.Outputs[j]
			if o.Name != want.Name {
				continue
			}
			if err := Classify(o, want.Classes, cfg.MaxBatchSize > 0, m.Labels(o.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
