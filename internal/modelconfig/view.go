package modelconfig

import (
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// ToBackend returns what a backend is told of the model: directory is the
// model's, versionDirectory that of the version.
func (c *Config) ToBackend(directory, versionDirectory string, version int64) backend.Config {
	view := backend.Config{
		Name: c.Name, Version: version, Directory: directory, VersionDirectory: versionDirectory,
		Backend: c.Backend, Filename: c.Filename, JSON: c.json, MaxBatchSize: c.MaxBatchSize, Parameters: c.Parameters,
		Decoupled: c.Decoupled,
		Iterative: c.Sequence != nil && c.Sequence.Iterative,
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		view.Inputs = append(view.Inputs, backend.IO{
			Name: in.Name, Datatype: in.Datatype,
			Dims: reshaped(in.Dims, in.Reshape, in.HasReshape), Optional: in.Optional, Ragged: in.AllowRagged,
		})
	}
	for i := range c.Outputs {
		out := &c.Outputs[i]
		view.Outputs = append(view.Outputs, backend.IO{
			Name: out.Name, Datatype: out.Datatype,
			Dims: reshaped(out.Dims, out.Reshape, out.HasReshape),
		})
	}
	c.addBatchIO(&view)
	c.Sequence.addTo(&view)
	for i := range c.Groups {
		view.Instances = append(view.Instances, c.Groups[i].Instances()...)
	}
	return view
}

// addBatchIO adds what batch_input and batch_output say. An output that several
// batch_output name is divided by the first, as in Triton.
func (c *Config) addBatchIO(view *backend.Config) {
	for i := range c.BatchInputs {
		b := &c.BatchInputs[i]
		dims := tensor.Shape{-1}
		if b.Kind == "BATCH_ITEM_SHAPE" {
			for _, io := range view.Inputs {
				if slices.Contains(b.SourceInput, io.Name) {
					dims = append(dims, int64(len(io.Dims)))
				}
			}
		}
		for _, name := range b.Targets {
			view.BatchInputs = append(view.BatchInputs, backend.IO{Name: name, Datatype: b.Datatype, Dims: dims})
		}
	}
	for i := range c.BatchOutputs {
		b := &c.BatchOutputs[i]
		for _, io := range view.Outputs {
			if slices.Contains(b.Targets, io.Name) && len(b.SourceInput) > 0 {
				view.Scattered = append(view.Scattered,
					backend.Scattered{Output: io.Name, Source: b.SourceInput[0], Dims: io.Dims, Batching: c.MaxBatchSize > 0})
			}
		}
	}
}

// addTo adds what the model sees of a sequence beside its own tensors: states
// and control tensors as inputs, states as outputs.
func (s *SequenceBatching) addTo(view *backend.Config) {
	if s == nil {
		return
	}
	add := func(list []backend.IO, name string, d tensor.Datatype, dims tensor.Shape) []backend.IO {
		if slices.ContainsFunc(list, func(io backend.IO) bool { return io.Name == name }) {
			return list
		}
		return append(list, backend.IO{Name: name, Datatype: d, Dims: dims})
	}
	for i := range s.States {
		st := &s.States[i]
		view.Inputs = add(view.Inputs, st.Input, st.Datatype, st.Dims)
		view.Outputs = add(view.Outputs, st.Output, st.Datatype, st.Dims)
	}
	for i := range s.Controls {
		view.Inputs = add(view.Inputs, s.Controls[i].Input, s.Controls[i].Datatype, tensor.Shape{1})
	}
}

func reshaped(dims, reshape tensor.Shape, has bool) tensor.Shape {
	if has {
		return reshape
	}
	return dims
}

// MaxInstances bounds the instances of a model: each costs at least a
// goroutine, often a process.
const MaxInstances = 4096

// Instances names the instances of a normalized group: Count of them, for
// KIND_GPU as many on each GPU.
func (g *InstanceGroup) Instances() []backend.InstanceConfig {
	devices := []int{0}
	if g.Kind == "KIND_GPU" && len(g.GPUs) > 0 {
		devices = g.GPUs
	}
	var all []backend.InstanceConfig
	for n := range min(g.Count, MaxInstances) {
		for _, device := range devices {
			all = append(all, backend.InstanceConfig{
				Name: g.Name + "_" + strconv.Itoa(n), Kind: g.Kind, Device: device,
				Profiles: g.Profiles, SecondaryDevices: g.SecondaryDevices, Passive: g.Passive,
			})
		}
	}
	return all
}
