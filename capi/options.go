//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"sync"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// serverOptions is a TRITONSERVER_ServerOptions: what ServerNew makes a neso.Server
// of. Options without a meaning here are taken and kept nowhere.
type serverOptions struct {
	mu       sync.Mutex
	server   neso.Server
	metrics  bool
	caches   map[string]neso.ResponseCache // by name
	cacheDir string
	exit     time.Duration
}

var optionSets = handle.NewTable[serverOptions](handle.ServerOptions)

// defaultExit is how long a stop waits where the program does not say.
const defaultExit = 30 * time.Second

// set calls f with the options of a handle. What f returns is the error.
func set(h C.uintptr_t, f func(o *serverOptions) handle.Handle) C.uintptr_t {
	o := optionSets.Get(handle.Handle(h))
	if o == nil {
		return C.uintptr_t(object.Stale("server options"))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return C.uintptr_t(f(o))
}

// setText is set for an option that is a text, which must be there.
func setText(h, text C.uintptr_t, what string, f func(o *serverOptions, v string)) C.uintptr_t {
	return set(h, func(o *serverOptions) handle.Handle {
		if text == 0 {
			return object.Null(what)
		}
		f(o, object.String(uintptr(text)))
		return 0
	})
}

// setValue is set for an option that any value is good for.
func setValue(h C.uintptr_t, f func(o *serverOptions)) C.uintptr_t {
	return set(h, func(o *serverOptions) handle.Handle {
		f(o)
		return 0
	})
}

// without is an option that has no meaning here: whatever it says is fine.
func without(h C.uintptr_t) C.uintptr_t { return setValue(h, func(*serverOptions) {}) }

//export TRITONSERVER_ServerOptionsNew
func TRITONSERVER_ServerOptionsNew(made C.uintptr_t) C.uintptr_t {
	if made == 0 {
		return C.uintptr_t(object.Null("the place for the options"))
	}
	o := &serverOptions{
		server: neso.Server{
			ControlMode: "poll", DisableAutoComplete: true, GPU: neso.GPU{MinComputeCapability: 6}, ModelLoads: "always",
			BackendSettings: map[string]map[string]string{}, HostPolicies: map[string]map[string]string{},
		},
		metrics: true, caches: map[string]neso.ResponseCache{}, exit: defaultExit,
	}
	object.Set(uintptr(made), uintptr(optionSets.New(o)))
	return 0
}

//export TRITONSERVER_ServerOptionsDelete
func TRITONSERVER_ServerOptionsDelete(h C.uintptr_t) C.uintptr_t {
	if optionSets.Take(handle.Handle(h)) == nil {
		return C.uintptr_t(object.Stale("server options"))
	}
	return 0
}

//export TRITONSERVER_ServerOptionsSetServerId
func TRITONSERVER_ServerOptionsSetServerId(h, id C.uintptr_t) C.uintptr_t {
	return setText(h, id, "server ID", func(o *serverOptions, v string) { o.server.ID = v })
}

//export TRITONSERVER_ServerOptionsSetModelRepositoryPath
func TRITONSERVER_ServerOptionsSetModelRepositoryPath(h, path C.uintptr_t) C.uintptr_t {
	return setText(h, path, "model repository path", func(o *serverOptions, v string) {
		o.server.ModelRepositories = append(o.server.ModelRepositories, v)
	})
}

//export TRITONSERVER_ServerOptionsSetModelControlMode
func TRITONSERVER_ServerOptionsSetModelControlMode(h C.uintptr_t, mode C.int) C.uintptr_t {
	return set(h, func(o *serverOptions) handle.Handle {
		if mode < 0 || mode > 2 {
			return object.Errorf(backend.InvalidArg, "unknown control mode '%d'", int(mode))
		}
		o.server.ControlMode = [...]string{"none", "poll", "explicit"}[mode]
		return 0
	})
}

//export TRITONSERVER_ServerOptionsSetStartupModel
func TRITONSERVER_ServerOptionsSetStartupModel(h, name C.uintptr_t) C.uintptr_t {
	return setText(h, name, "model name", func(o *serverOptions, v string) {
		o.server.StartupModels = append(o.server.StartupModels, v)
	})
}

//export TRITONSERVER_ServerOptionsSetStrictModelConfig
func TRITONSERVER_ServerOptionsSetStrictModelConfig(h C.uintptr_t, strict C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.DisableAutoComplete = bool(strict) })
}

//export TRITONSERVER_ServerOptionsSetModelConfigName
func TRITONSERVER_ServerOptionsSetModelConfigName(h, name C.uintptr_t) C.uintptr_t {
	return setText(h, name, "model config name", func(o *serverOptions, v string) { o.server.ModelConfigName = v })
}

//export TRITONSERVER_ServerOptionsSetRateLimiterMode
func TRITONSERVER_ServerOptionsSetRateLimiterMode(h C.uintptr_t, mode C.int) C.uintptr_t {
	return set(h, func(o *serverOptions) handle.Handle {
		if mode < 0 || mode > 1 {
			return object.Errorf(backend.InvalidArg, "unknown rate limit mode '%d'", int(mode))
		}
		o.server.RateLimit = [...]string{"off", "execution_count"}[mode]
		return 0
	})
}

//export TRITONSERVER_ServerOptionsAddRateLimiterResource
func TRITONSERVER_ServerOptionsAddRateLimiterResource(h, name C.uintptr_t, count C.size_t, device C.int) C.uintptr_t {
	return setText(h, name, "resource name", func(o *serverOptions, v string) {
		d := int(device)
		if d < 0 {
			d = neso.EveryDevice
		}
		o.server.RateLimitResources = append(o.server.RateLimitResources, neso.RateLimitResource{Name: v, Count: int(count), Device: d})
	})
}

//export TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize
func TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(h C.uintptr_t, _ C.uint64_t) C.uintptr_t {
	return without(h)
}

//export TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize
func TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(h C.uintptr_t, _device C.int, _size C.uint64_t) C.uintptr_t {
	return without(h)
}

//export TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize
func TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(h C.uintptr_t, _device C.int, _size C.size_t) C.uintptr_t {
	return without(h)
}

//export TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability
func TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(h C.uintptr_t, cc C.double) C.uintptr_t {
	return setValue(h, func(o *serverOptions) {
		o.server.GPU.MinComputeCapability = float64(cc)
		if cc <= 0 {
			o.server.GPU.MinComputeCapability = -1 // any
		}
	})
}

//export TRITONSERVER_ServerOptionsSetExitOnError
func TRITONSERVER_ServerOptionsSetExitOnError(h C.uintptr_t, exit C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.KeepGoing = !bool(exit) })
}

//export TRITONSERVER_ServerOptionsSetStrictReadiness
func TRITONSERVER_ServerOptionsSetStrictReadiness(h C.uintptr_t, strict C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.LooseReadiness = !bool(strict) })
}

//export TRITONSERVER_ServerOptionsSetExitTimeout
func TRITONSERVER_ServerOptionsSetExitTimeout(h C.uintptr_t, seconds C.uint) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.exit = time.Duration(seconds) * time.Second })
}

//export TRITONSERVER_ServerOptionsSetBufferManagerThreadCount
func TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(h C.uintptr_t, _ C.uint) C.uintptr_t {
	return without(h)
}

//export TRITONSERVER_ServerOptionsSetModelLoadThreadCount
func TRITONSERVER_ServerOptionsSetModelLoadThreadCount(h C.uintptr_t, count C.uint) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.LoadThreads = int(count) })
}

//export TRITONSERVER_ServerOptionsSetModelLoadRetryCount
func TRITONSERVER_ServerOptionsSetModelLoadRetryCount(h C.uintptr_t, count C.uint) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.LoadRetries = int(count) })
}

//export TRITONSERVER_ServerOptionsSetModelNamespacing
func TRITONSERVER_ServerOptionsSetModelNamespacing(h C.uintptr_t, enable C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.ModelNamespacing = bool(enable) })
}

//export TRITONSERVER_ServerOptionsSetEnablePeerAccess
func TRITONSERVER_ServerOptionsSetEnablePeerAccess(h C.uintptr_t, _ C.bool) C.uintptr_t {
	return without(h)
}
