//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
)

// Upstream is the server that has started this process, as a library has it from
// TRITONBACKEND_ModelServer. What it is asked it asks there, over the worker protocol.
type Upstream struct {
	server *host.Server

	mu        sync.Mutex
	instances []*instance // of the model
	services  map[service]Service
}

type service struct {
	model   string
	version int64
}

// Service is what a request needs to know of the model that it is for.
type Service struct {
	Model     string `json:"model"`
	Decoupled bool   `json:"decoupled"`
	Version   int64  `json:"version"`
}

// serviceLimit is how many models are remembered; a library that asks for more is told
// of each anew.
const serviceLimit = 1024

// ModelServer returns the server of a handle of TRITONBACKEND_ModelServer, nil for others.
func ModelServer(h handle.Handle) *Upstream { return servers.Get(h) }

func (u *Upstream) joins(in *instance) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.instances = append(u.instances, in)
}

func (u *Upstream) leaves(in *instance) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.instances = slices.DeleteFunc(u.instances, func(o *instance) bool { return o == in })
}

// caller is the number of the instance that calls: that which this thread executes, or
// the only one. The server needs it to see calls that wait for each other.
func (u *Upstream) caller() uint32 {
	executing := instances.Get(handle.Handle(C.neso_executing()))
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case executing != nil && slices.Contains(u.instances, executing):
		return executing.number
	case len(u.instances) == 1:
		return u.instances[0].number
	}
	return 0
}

// Served returns the model and the version that served a call of Infer. known is what
// was known before the call: since then the label of its name, or the latest version,
// may have moved. It is called once the first response has come.
func (u *Upstream) Served(r *backend.Request, known Service, call *host.Call) (model string, version int64) {
	if r.ModelVersion > 0 {
		return known.Model, r.ModelVersion
	}
	version = call.Version()
	if version == known.Version {
		return known.Model, version
	}
	// The next request asks anew: this version may be decoupled, or not.
	u.mu.Lock()
	delete(u.services, service{r.ModelName, r.ModelVersion})
	u.mu.Unlock()
	if version == 0 { // refused before a version was chosen
		version = known.Version
	}
	return known.Model, version
}

// Infer sends a request to a model that Service was asked about; see host.Server.Infer.
func (u *Upstream) Infer(r *backend.Request, respond func(*backend.Response, bool)) (*host.Call, Service, error) {
	u.mu.Lock()
	known, ok := u.services[service{r.ModelName, r.ModelVersion}]
	u.mu.Unlock()
	if !ok {
		var err error
		if known, err = u.Service(r.ModelName, r.ModelVersion); err != nil {
			return nil, known, err
		}
	}
	call, err := u.server.Infer(u.caller(), r, known.Decoupled, respond)
	return call, known, err
}

// Service asks whether requests for a version of a model, -1 for the latest, would be
// taken now.
func (u *Upstream) Service(model string, version int64) (Service, error) {
	var s Service
	text, err := u.Document(backend.Question{About: backend.AboutService, Model: model, Version: version})
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.services == nil || len(u.services) >= serviceLimit {
		u.services = map[service]Service{}
	}
	u.services[service{model, version}] = s
	return s, nil
}

// Document asks what the server says of itself or a model.
func (u *Upstream) Document(q backend.Question) ([]byte, error) {
	var answer struct {
		Document json.RawMessage `json:"document"`
	}
	err := u.server.Control(host.Control{Op: "document", Question: &q}, &answer)
	return answer.Document, err
}

// Ready reports whether a version of a model, -1 for the latest, is ready.
func (u *Upstream) Ready(model string, version int64) (bool, error) {
	var answer struct {
		Ready bool `json:"ready"`
	}
	err := u.server.Control(host.Control{Op: "is_ready", Model: model, Version: version}, &answer)
	return answer.Ready, err
}

// Load loads a model, or loads it anew.
func (u *Upstream) Load(model, config string, files map[string][]byte) error {
	return u.server.Control(host.Control{Op: "load", Model: model, Config: config, Files: files}, nil)
}

// Unload unloads a model, with dependents also those that only it uses.
func (u *Upstream) Unload(model string, dependents bool) error {
	return u.server.Control(host.Control{Op: "unload", Model: model, Dependents: dependents}, nil)
}
