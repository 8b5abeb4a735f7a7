package modelconfig

import "github.com/nesoserve/neso/internal/inferencepb"

// Proto returns the configuration as the message of the protocol. Like the
// Config itself it must not be changed.
func (c *Config) Proto() *inferencepb.ModelConfig { return c.pb }
