package modelconfig

import "github.com/nesoserve/neso/internal/modelconfig/encode"

// Text returns the configuration in the form of config.pbtxt. Reading it
// gives an equal configuration.
func (c *Config) Text() []byte { return encode.AppendText(nil, c.pb.ProtoReflect(), "") }

// YAML returns the configuration as YAML, with the members and their order of
// the JSON form.
func (c *Config) YAML() ([]byte, error) { return encode.YAML(c.json) }
