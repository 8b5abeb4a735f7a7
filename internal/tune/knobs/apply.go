package knobs

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

// Apply makes a change in what is known of the configuration; of other fields nothing is.
func (c *Config) Apply(e edit.Change) {
	dynamic := func() {
		if c.Dynamic == nil {
			_ = json.Unmarshal([]byte("{}"), &c.Dynamic) // an object
		}
	}
	if key, ok := strings.CutPrefix(e.Field, edit.ParameterPrefix); ok {
		var text string
		_ = json.Unmarshal(e.Value, &text) // null leaves it empty
		p := c.Parameters[key]
		p.Text = text
		if c.Parameters == nil {
			c.Parameters = map[string]struct {
				Text string `json:"string_value"`
			}{}
		}
		c.Parameters[key] = p
		return
	}
	// What has another form than these have was refused when the plan was made.
	switch e.Field {
	case edit.InstanceCount:
		var n int
		_ = json.Unmarshal(e.Value, &n)
		if len(c.Instances) == 0 {
			_ = json.Unmarshal([]byte("[{}]"), &c.Instances)
		}
		for i := range c.Instances {
			c.Instances[i].Count = n
		}
	case "instance_group":
		c.Instances = nil
		_ = json.Unmarshal(e.Value, &c.Instances)
	case "max_batch_size":
		_ = json.Unmarshal(e.Value, &c.MaxBatch)
	case "dynamic_batching":
		if string(e.Value) == "null" {
			c.Dynamic = nil
			return
		}
		dynamic()
		_ = json.Unmarshal(e.Value, c.Dynamic)
	case delayField:
		dynamic()
		_ = json.Unmarshal(e.Value, &c.Dynamic.Delay)
	case "dynamic_batching.preferred_batch_size":
		dynamic()
		c.Dynamic.Preferred = nil
		_ = json.Unmarshal(e.Value, &c.Dynamic.Preferred)
	}
}

// OnGPU reports whether an instance group is one of GPUs.
func (c *Config) OnGPU() bool {
	for _, g := range c.Instances {
		if strings.Contains(g.Kind, "GPU") {
			return true
		}
	}
	return slices.Contains([]string{"tensorrt", "tensorrt_plan"}, c.Platform)
}
