package ensemble

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Tensors between steps stay on a GPU when all who read them take them there. A
// step is asked for such outputs if one of them may be used so; the others are
// brought to the host where its response comes in.

// anyGPU is Request.TakesDevice of steps.
func anyGPU(tensor.GPU) bool { return true }

// staysOnDevice reports whether a tensor may lie on a GPU: it goes to steps
// alone, which all take it.
func (x *run) staysOnDevice(t int) bool {
	if !x.devices || slices.ContainsFunc(x.flow.n.outputs, func(o int) bool { return x.s.g.outputs[o].tensor == t }) {
		return false
	}
	for _, to := range x.s.g.tensors[t].to {
		if x.flow.n.steps[to] && !x.targets[to].TakesDevice() {
			return false
		}
	}
	return true
}

// wantsDevice reports whether an output of the step may lie on a GPU.
func (x *run) wantsDevice(st *step) bool {
	return slices.ContainsFunc(st.out, func(e edge) bool { return x.flow.n.uses[e.tensor] > 0 && x.staysOnDevice(e.tensor) })
}

// settleOutputs brings those outputs of a step's response to the host that may not stay
// on a GPU, and returns the response, or what takes its place.
func (x *run) settleOutputs(st *step, resp *backend.Response) *backend.Response {
	if !x.devices || resp == nil || resp.Err != nil {
		return resp
	}
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		if !t.OnDevice() {
			continue
		}
		e := slices.IndexFunc(st.out, func(e edge) bool { return e.name == t.Name })
		if e < 0 || x.flow.n.uses[st.out[e].tensor] == 0 || x.staysOnDevice(st.out[e].tensor) {
			continue
		}
		if err := t.ToHost(x.s.o.Host.Allocator(st.model, st.version)); err != nil {
			resp.Release()
			return &backend.Response{Err: backend.Errorf(backend.Internal, "%v", err)}
		}
	}
	return resp
}
