package ensemble

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Tensors stay on a GPU when all who read them take them there: steps, and who
// sent the request. A step is asked for such outputs if one of them may be used
// so; the others are brought to the host where its response comes in.

// anyGPU is Request.TakesDevice of steps.
func anyGPU(tensor.GPU) bool { return true }

// staysOnDevice reports whether a tensor may lie on a GPU; nil asks for any.
func (x *run) staysOnDevice(t int, on tensor.DeviceMemory) bool {
	if !x.devices {
		return false
	}
	if slices.ContainsFunc(x.flow.n.outputs, func(o int) bool { return x.s.g.outputs[o].tensor == t }) {
		if takes := x.r.TakesDevice; takes == nil || on != nil && !takes(on.GPU()) {
			return false
		}
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
	return slices.ContainsFunc(st.out, func(e edge) bool { return x.flow.n.uses[e.tensor] > 0 && x.staysOnDevice(e.tensor, nil) })
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
		if e < 0 || x.flow.n.uses[st.out[e].tensor] == 0 || x.staysOnDevice(st.out[e].tensor, t.Device()) {
			continue
		}
		if err := t.ToHost(x.s.o.Host.Allocator(st.model, st.version)); err != nil {
			resp.Release()
			return &backend.Response{Err: backend.Errorf(backend.Internal, "%v", err)}
		}
	}
	return resp
}

// settleInputs does the same for the inputs of the request, once it is known who
// reads them.
func (x *run) settleInputs() {
	if x.flow.err != nil {
		return // a model is missing
	}
	for i := range x.s.g.inputs {
		t := x.s.g.inputs[i].tensor
		v := &x.flow.root.values[t]
		if v.left == 0 || !v.OnDevice() || x.staysOnDevice(t, v.Device()) {
			continue
		}
		if err := v.ToHost(x.s.o.Host.Allocator(x.s.g.Reader())); err != nil {
			x.fail(backend.Errorf(backend.Internal, "%v", err))
			return
		}
	}
}
