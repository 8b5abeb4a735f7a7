package model

import (
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// textParameter names the output of texts, where it has another name than usual.
const textParameter = "openai_output"

// textOutput returns the output of strings in which a model writes texts, "" for a model
// of another kind.
func textOutput(c *modelconfig.Config) string {
	name := c.Parameters[textParameter]
	if name == "" {
		name = generation.DefaultOutput
	}
	for i := range c.Outputs {
		if c.Outputs[i].Name == name && c.Outputs[i].Datatype == tensor.Bytes {
			return name
		}
	}
	return ""
}

// TextOutput is the output in which the model writes texts, "" for a model that does not.
func (m *Model) TextOutput() string { return m.text }
