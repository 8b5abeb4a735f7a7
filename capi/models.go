//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// What can be asked of models, and done with them.

//export TRITONSERVER_ServerRegisterModelRepository
func TRITONSERVER_ServerRegisterModelRepository(h, path, mapping C.uintptr_t, count C.uint32_t) C.uintptr_t {
	if mapping == 0 && count > 0 {
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "model mappings are not provided while mapping count is non-zero"))
	}
	list, ok := object.Parameters(uintptr(mapping), uint64(count))
	if path == 0 || !ok {
		return C.uintptr_t(object.Null("the repository's path and its mappings"))
	}
	return ask(h, func(s *server) error {
		repository := object.String(uintptr(path))
		if s.mode != "explicit" {
			return backend.Errorf(backend.Unsupported, "repository registration is not allowed if model control mode is not EXPLICIT")
		}
		names := map[string]string{}
		for _, p := range list {
			model, ok := p.Value.(string)
			if !ok {
				return backend.Errorf(backend.InvalidArg, "Mapped model name must be a string, found another type for %s", p.Name)
			}
			for _, other := range names {
				if other == model {
					return backend.Errorf(backend.InvalidArg, "failed to register '%s', there is a conflicting mapping for '%s'", repository, model)
				}
			}
			names[p.Name] = model
		}
		if info, err := os.Stat(repository); err != nil || !info.IsDir() {
			return backend.Errorf(backend.InvalidArg, "failed to register '%s', repository not found", repository)
		}
		return s.RegisterRepository(repository, names)
	})
}

//export TRITONSERVER_ServerUnregisterModelRepository
func TRITONSERVER_ServerUnregisterModelRepository(h, path C.uintptr_t) C.uintptr_t {
	if path == 0 {
		return C.uintptr_t(object.Null("the repository's path"))
	}
	return ask(h, func(s *server) error {
		if s.mode != "explicit" {
			return backend.Errorf(backend.Unsupported, "repository unregistration is not allowed if model control mode is not EXPLICIT")
		}
		return s.UnregisterRepository(object.String(uintptr(path)))
	})
}

//export TRITONSERVER_ServerPollModelRepository
func TRITONSERVER_ServerPollModelRepository(h C.uintptr_t) C.uintptr_t {
	return ask(h, func(s *server) error { return s.Poll(context.Background()) })
}

//export TRITONSERVER_ServerModelIsReady
func TRITONSERVER_ServerModelIsReady(h, name C.uintptr_t, version C.int64_t, ready C.uintptr_t) C.uintptr_t {
	if name == 0 || ready == 0 {
		return C.uintptr_t(object.Null("the model's name and the place for the answer"))
	}
	return ask(h, func(s *server) error {
		err := s.ModelReady(object.String(uintptr(name)), int64(version))
		object.Set(uintptr(ready), C.bool(err == nil))
		if b := backend.AsError(err); b != nil && b.Code == backend.Unavailable {
			return b
		}
		return nil
	})
}

// modelFacts is what requests and programs ask of a configuration.
type modelFacts struct {
	MaxBatchSize int `json:"max_batch_size"`
	Policy       struct {
		Decoupled bool `json:"decoupled"`
	} `json:"model_transaction_policy"`
	Batching struct {
		Levels  uint64 `json:"priority_levels"`
		Default uint64 `json:"default_priority_level"`
	} `json:"dynamic_batching"`
	Input []struct {
		Name     string          `json:"name"`
		Datatype string          `json:"data_type"`
		Dims     []json.Number   `json:"dims"`
		Reshape  json.RawMessage `json:"reshape"`
	} `json:"input"`
}

// facts reads the configuration of a model, which may change from call to call.
func (s *server) facts(name string, version int64) (*modelFacts, error) {
	text, err := s.ModelConfig(name, version)
	if err != nil {
		return nil, err
	}
	var f modelFacts
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", name, err)
	}
	return &f, nil
}

//export TRITONSERVER_ServerModelBatchProperties
func TRITONSERVER_ServerModelBatchProperties(h, name C.uintptr_t, version C.int64_t, flags, reserved C.uintptr_t) C.uintptr_t {
	return properties(h, name, version, flags, reserved, func(f *modelFacts) C.uint32_t {
		if f.MaxBatchSize > 0 {
			return 2
		}
		return 1
	})
}

//export TRITONSERVER_ServerModelTransactionProperties
func TRITONSERVER_ServerModelTransactionProperties(h, name C.uintptr_t, version C.int64_t, flags, reserved C.uintptr_t) C.uintptr_t {
	object.Set(uintptr(flags), C.uint32_t(0)) // as the peer does, whatever comes of the call
	return properties(h, name, version, flags, reserved, func(f *modelFacts) C.uint32_t {
		if f.Policy.Decoupled {
			return 2
		}
		return 1
	})
}

func properties(h, name C.uintptr_t, version C.int64_t, flags, reserved C.uintptr_t, of func(*modelFacts) C.uint32_t) C.uintptr_t {
	if name == 0 || flags == 0 {
		return C.uintptr_t(object.Null("the model's name and the place for the flags"))
	}
	object.Set(uintptr(reserved), uintptr(0))
	return ask(h, func(s *server) error {
		model := object.String(uintptr(name))
		f, err := s.facts(model, int64(version))
		if err != nil {
			return missed(s, model, int64(version), err)
		}
		object.Set(uintptr(flags), of(f))
		return nil
	})
}

//export TRITONSERVER_ServerModelMetadata
func TRITONSERVER_ServerModelMetadata(h, name C.uintptr_t, version C.int64_t, message C.uintptr_t) C.uintptr_t {
	if name == 0 {
		return C.uintptr_t(object.Null("the model's name"))
	}
	return document(h, message, func(s serving) ([]byte, error) {
		model := object.String(uintptr(name))
		text, err := s.ModelMetadata(model, int64(version))
		return text, missed(s, model, int64(version), err)
	})
}

//export TRITONSERVER_ServerModelStatistics
func TRITONSERVER_ServerModelStatistics(h, name C.uintptr_t, version C.int64_t, message C.uintptr_t) C.uintptr_t {
	return document(h, message, whileLive(func(s serving) ([]byte, error) {
		model, version := object.String(uintptr(name)), int64(version)
		if model == "" {
			version = -1 // all models, all versions
		}
		return s.Statistics(model, version)
	}))
}

//export TRITONSERVER_ServerModelConfig
func TRITONSERVER_ServerModelConfig(h, name C.uintptr_t, version C.int64_t, format C.uint32_t, message C.uintptr_t) C.uintptr_t {
	switch {
	case name == 0:
		return C.uintptr_t(object.Null("the model's name"))
	case format != 1:
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "model configuration version %d not supported, supported versions are: 1",
			uint32(format)))
	}
	return document(h, message, func(s serving) ([]byte, error) {
		model := object.String(uintptr(name))
		text, err := s.ModelConfig(model, int64(version))
		return text, missed(s, model, int64(version), err)
	})
}

// missed is the error of a question about a model. A server that has stopped says that
// it has the model no more, and not that it is not ready: so does the peer's.
func missed(s serving, model string, version int64, err error) error {
	if b := backend.AsError(err); b != nil && b.Code == backend.Unavailable {
		if gone := s.Serves(model, version); gone != nil {
			return gone
		}
	}
	return err
}

//export TRITONSERVER_ServerModelIndex
func TRITONSERVER_ServerModelIndex(h C.uintptr_t, flags C.uint32_t, message C.uintptr_t) C.uintptr_t {
	return document(h, message, whileLive(func(s serving) ([]byte, error) { return s.Index(flags&1 != 0) }))
}

//export TRITONSERVER_ServerLoadModel
func TRITONSERVER_ServerLoadModel(h, name C.uintptr_t) C.uintptr_t {
	return TRITONSERVER_ServerLoadModelWithParameters(h, name, 0, 0)
}

//export TRITONSERVER_ServerLoadModelWithParameters
func TRITONSERVER_ServerLoadModelWithParameters(h, name, parameters C.uintptr_t, count C.uint64_t) C.uintptr_t {
	if parameters == 0 && count > 0 {
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "load parameters are not provided while parameter count is non-zero"))
	}
	list, ok := object.Parameters(uintptr(parameters), uint64(count))
	if name == 0 || !ok {
		return C.uintptr_t(object.Null("the model's name and its parameters"))
	}
	config, files, said, empty := "", map[string][]byte{}, false, false // of what comes twice the first counts
	for _, p := range list {
		switch v := p.Value.(type) {
		case string:
			if p.Name == "config" {
				if !said {
					config, said, empty = v, true, v == ""
				}
				continue
			}
		case []byte:
			if path, isFile := strings.CutPrefix(p.Name, "file:"); isFile {
				if _, there := files[path]; !there {
					files[path] = v
				}
				continue
			}
		}
		return C.uintptr_t(notPolled(name, "unrecognized load parameter '"+p.Name+"' with type '"+p.Type.String()+"'"))
	}
	if empty {
		return C.uintptr_t(notPolled(name, "parameter 'config' is empty, expected a JSON object"))
	}
	return ask(h, func(s *server) error {
		model := object.String(uintptr(name))
		if model == "" {
			return object.TakeError(notPolled(name, "the model's name is empty"))
		}
		return s.Load(context.Background(), model, config, files)
	})
}

// notPolled is the error of a load that comes to nothing before it has begun.
func notPolled(name C.uintptr_t, why string) handle.Handle {
	return object.Errorf(backend.Internal, "failed to load '%s', failed to poll from model repository: %s", object.String(uintptr(name)), why)
}

// whileLive calls f while the server serves: what it has afterwards is not told.
func whileLive(f func(s serving) ([]byte, error)) func(s serving) ([]byte, error) {
	return func(s serving) ([]byte, error) {
		if s.Live() != nil {
			return nil, backend.Errorf(backend.Unavailable, "Server not ready")
		}
		return f(s)
	}
}

//export TRITONSERVER_ServerUnloadModel
func TRITONSERVER_ServerUnloadModel(h, name C.uintptr_t) C.uintptr_t { return unload(h, name, false) }

//export TRITONSERVER_ServerUnloadModelAndDependents
func TRITONSERVER_ServerUnloadModelAndDependents(h, name C.uintptr_t) C.uintptr_t {
	return unload(h, name, true)
}

func unload(h, name C.uintptr_t, dependents bool) C.uintptr_t {
	if name == 0 {
		return C.uintptr_t(object.Null("the model's name"))
	}
	return ask(h, func(s *server) error {
		return s.Unload(context.Background(), object.String(uintptr(name)), dependents)
	})
}
