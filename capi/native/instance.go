//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// instance is a TRITONBACKEND_ModelInstance.
type instance struct {
	handle     handle.Handle
	number     uint32 // in the worker
	model      *model
	server     *host.Server
	config     backend.InstanceConfig
	iterative  bool
	state      uintptr
	latest     atomic.Pointer[host.Request] // one of the batch that it has, or had last
	name       object.Text
	profiles   []object.Text
	outputs    []string // of the configuration, states too
	states     []string // outputs that the sequence keeps
	hidden     []string // those of them that are no outputs for clients
	hostPolicy owned
	blocks     blocks
	batch      []C.uintptr_t // room for that which runs
	device     *device       // whose thread runs it; nil for its own
	// shapeTensors are the names of the inputs whose values are shapes; nil for none.
	shapeTensors map[string]bool
}

var instances = handle.NewTable[instance](kindInstance)

// instance makes an instance of the model, whose configuration is complete by now.
func (m *model) instance(number uint32, i *host.Init, server *host.Server) (*instance, error) {
	m.mu.Lock()
	m.config, m.may = string(i.Config), false
	m.mu.Unlock()
	in := &instance{
		number: number, model: m, server: server, config: i.Instance, iterative: i.Iterative,
		profiles: make([]object.Text, len(i.Instance.Profiles)), outputs: i.Outputs,
		shapeTensors: shapeTensors(i.Config),
	}
	in.states, in.hidden = m.keeps()
	in.handle = instances.New(in)
	m.up.joins(in)
	in.device = m.join(&in.config)
	if err := call(m.library.entry.instanceInitialize, in.handle); err != nil {
		in.free()
		return nil, err
	}
	return in, nil
}

func (in *instance) end() error {
	err := call(in.model.library.entry.instanceFinalize, in.handle)
	in.free()
	return err
}

func (in *instance) free() {
	instances.Take(in.handle)
	in.model.part(&in.config, in.device)
	in.model.up.leaves(in)
	in.blocks.free()
	in.name.Free()
	in.hostPolicy.free()
	for k := range in.profiles {
		in.profiles[k].Free()
	}
}

// execute runs a batch.
func (in *instance) execute(batch []*host.Request) error {
	list, room := in.batch[:0], [1]*request{}
	made := room[:0]
	in.latest.Store(batch[0])
	for _, r := range batch {
		q := newRequest(in, r)
		made, list = append(made, q), append(list, C.uintptr_t(q.handle))
	}
	in.batch = list
	var err error
	if in.device == nil {
		err = in.run(list)
	} else {
		err = in.device.do(func() error { return in.run(list) })
	}
	if err != nil { // then they are ours again
		for _, r := range made {
			r.abandon()
		}
	}
	return err
}

func (in *instance) run(list []C.uintptr_t) error {
	return taken(C.neso_execute(in.model.library.entry.execute, C.uintptr_t(in.handle), &list[0], C.uint32_t(len(list))))
}

// visible returns the outputs that a library is asked for: its states are not among them,
// which the server asks for itself.
func (in *instance) visible(requested []string) []string {
	hidden := func(name string) bool { return slices.Contains(in.hidden, name) }
	if !slices.ContainsFunc(requested, hidden) {
		return requested
	}
	return slices.DeleteFunc(slices.Clone(requested), hidden) // they may be those of all requests
}

func instanceOf(h C.uintptr_t, f func(in *instance) C.uintptr_t) C.uintptr_t {
	in := instances.Get(handle.Handle(h))
	if in == nil {
		return stale("the model instance")
	}
	return f(in)
}

// kinds are the numbers of the kinds of instances.
var kinds = map[string]C.int{"KIND_AUTO": 0, "KIND_CPU": 1, "KIND_GPU": 2, "KIND_MODEL": 3}

// policy is the host policy of an instance: its name and settings, as JSON.
func (in *instance) policy() string {
	name, settings := strings.ToLower(strings.TrimPrefix(in.config.Kind, "KIND_")), map[string]string{}
	if name == "gpu" {
		name = fmt.Sprintf("gpu_%d", in.config.Device)
	}
	if p := in.config.HostPolicy; p != nil {
		name = p.Name
		maps.Copy(settings, p.Settings)
	}
	body, _ := json.Marshal(map[string]any{name: settings}) // strings always can
	return string(body)
}

//export TRITONBACKEND_ModelInstanceName
func TRITONBACKEND_ModelInstanceName(h, name C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { text(name, &in.name, in.config.Name); return 0 })
}

//export TRITONBACKEND_ModelInstanceKind
func TRITONBACKEND_ModelInstanceKind(h, kind C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(kind, kinds[in.config.Kind]); return 0 })
}

//export TRITONBACKEND_ModelInstanceDeviceId
func TRITONBACKEND_ModelInstanceDeviceId(h, id C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(id, int32(in.config.Device)); return 0 })
}

//export TRITONBACKEND_ModelInstanceHostPolicy
func TRITONBACKEND_ModelInstanceHostPolicy(h, policy C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { return in.hostPolicy.put(policy, in.policy()) })
}

//export TRITONBACKEND_ModelInstanceIsPassive
func TRITONBACKEND_ModelInstanceIsPassive(h, passive C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(passive, in.config.Passive); return 0 })
}

//export TRITONBACKEND_ModelInstanceProfileCount
func TRITONBACKEND_ModelInstanceProfileCount(h, count C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(count, uint32(len(in.config.Profiles))); return 0 })
}

//export TRITONBACKEND_ModelInstanceProfileName
func TRITONBACKEND_ModelInstanceProfileName(h C.uintptr_t, index C.uint32_t, name C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t {
		if int(index) >= len(in.profiles) {
			return errorf(backend.InvalidArg, "out of bounds index %d: instance is configured with %d profiles", index, len(in.profiles))
		}
		text(name, &in.profiles[index], in.config.Profiles[index])
		return 0
	})
}

//export TRITONBACKEND_ModelInstanceSecondaryDeviceCount
func TRITONBACKEND_ModelInstanceSecondaryDeviceCount(h, count C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(count, uint32(len(in.config.SecondaryDevices))); return 0 })
}

//export TRITONBACKEND_ModelInstanceSecondaryDeviceProperties
func TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(h C.uintptr_t, index C.uint32_t, kind, id C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t {
		all := in.config.SecondaryDevices
		if int(index) >= len(all) {
			return errorf(backend.InvalidArg, "out of bounds index %d: instance is configured with %d secondary devices", index, len(all))
		}
		put(kind, in.model.named(all[index].Kind))
		put(id, all[index].ID)
		return 0
	})
}

//export TRITONBACKEND_ModelInstanceModel
func TRITONBACKEND_ModelInstanceModel(h, m C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(m, in.model.handle); return 0 })
}

//export TRITONBACKEND_ModelInstanceState
func TRITONBACKEND_ModelInstanceState(h, state C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { put(state, in.state); return 0 })
}

//export TRITONBACKEND_ModelInstanceSetState
func TRITONBACKEND_ModelInstanceSetState(h, state C.uintptr_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t { in.state = uintptr(state); return 0 })
}
