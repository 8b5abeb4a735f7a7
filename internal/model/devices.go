package model

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// devices says how far tensors on GPUs may pass through a version: where the
// server itself looks at the bytes of inputs or outputs, they come to the host.
type devices struct {
	takes bool // inputs may lie there
	gives bool // outputs may, for who takes them
}

func devicesOf(c *modelconfig.Config, can backend.Capabilities, cfg *backend.Config) devices {
	if c.Sequence != nil || can.Gather { // states, concatenation
		return devices{}
	}
	return devices{takes: can.TakesDevice != nil && can.TakesDevice(cfg), gives: true}
}

// TakesDevice reports whether inputs may lie on a GPU. If the instance that they
// end at cannot read them there, it copies them.
func (m *Model) TakesDevice() bool { return m.devices.takes }

// Settle brings the inputs of a request that lie on a GPU to the host unless the
// version takes them there, and refuses outputs there where it has to. A request
// that is traced has everything on the host.
func (m *Model) Settle(r *infer.Request) error {
	if r.TakesDevice != nil && (!m.devices.gives || r.Timeline != nil) {
		r.TakesDevice = nil
	}
	if m.devices.takes && r.Timeline == nil {
		return nil
	}
	for i := range r.Inputs {
		if t := &r.Inputs[i]; t.OnDevice() {
			if err := t.ToHost(m.allocator); err != nil {
				return backend.Errorf(backend.Internal, "%v", err)
			}
		}
	}
	return nil
}
