//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// Options of caches, backends, metrics and devices.

//export TRITONSERVER_ServerOptionsSetResponseCacheByteSize
func TRITONSERVER_ServerOptionsSetResponseCacheByteSize(h C.uintptr_t, size C.uint64_t) C.uintptr_t {
	return setValue(h, func(o *serverOptions) {
		if size > 0 { // none, as by default
			o.caches["local"] = neso.ResponseCache{
				Name: "local", Settings: map[string]string{"size": strconv.FormatUint(uint64(size), 10)},
			}
		}
	})
}

//export TRITONSERVER_ServerOptionsSetCacheConfig
func TRITONSERVER_ServerOptionsSetCacheConfig(h, name, config C.uintptr_t) C.uintptr_t {
	if name == 0 || config == 0 {
		return C.uintptr_t(object.Null("cache name and configuration"))
	}
	c := neso.ResponseCache{Text: object.String(uintptr(config)), Settings: map[string]string{}}
	// What cannot be read is said by the start of the server.
	values := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(c.Text), &values)
	for k, v := range values {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v) // {"size": 1048576} is good too
		}
		c.Settings[k] = text
	}
	return setText(h, name, "cache name", func(o *serverOptions, v string) {
		c.Name = v
		o.caches[v] = c
	})
}

//export TRITONSERVER_ServerOptionsSetCacheDirectory
func TRITONSERVER_ServerOptionsSetCacheDirectory(h, directory C.uintptr_t) C.uintptr_t {
	return setText(h, directory, "cache directory", func(o *serverOptions, v string) { o.cacheDir = v })
}

//export TRITONSERVER_ServerOptionsSetMetrics
func TRITONSERVER_ServerOptionsSetMetrics(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.metrics = bool(on) })
}

//export TRITONSERVER_ServerOptionsSetGpuMetrics
func TRITONSERVER_ServerOptionsSetGpuMetrics(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.Metrics.NoGPU = !bool(on) })
}

//export TRITONSERVER_ServerOptionsSetCpuMetrics
func TRITONSERVER_ServerOptionsSetCpuMetrics(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setValue(h, func(o *serverOptions) { o.server.Metrics.NoCPU = !bool(on) })
}

//export TRITONSERVER_ServerOptionsSetMetricsInterval
func TRITONSERVER_ServerOptionsSetMetricsInterval(h C.uintptr_t, _ C.uint64_t) C.uintptr_t {
	return without(h) // they are read when they are asked for
}

//export TRITONSERVER_ServerOptionsSetMetricsConfig
func TRITONSERVER_ServerOptionsSetMetricsConfig(h, name, setting, value C.uintptr_t) C.uintptr_t {
	if setting == 0 || value == 0 {
		return C.uintptr_t(object.Null("setting and value"))
	}
	s, v := object.String(uintptr(setting)), object.String(uintptr(value))
	return setValue(h, func(o *serverOptions) {
		// No metric has settings of its own: there they are taken, and read by nobody.
		if object.String(uintptr(name)) == "" && s != "" && v != "" && !strings.ContainsAny(s, ",=") {
			o.server.Metrics.Config = append(o.server.Metrics.Config, s+"="+v)
		}
	})
}

//export TRITONSERVER_ServerOptionsSetBackendDirectory
func TRITONSERVER_ServerOptionsSetBackendDirectory(h, directory C.uintptr_t) C.uintptr_t {
	return setText(h, directory, "backend directory", func(o *serverOptions, v string) { o.server.BackendDirectory = v })
}

//export TRITONSERVER_ServerOptionsSetRepoAgentDirectory
func TRITONSERVER_ServerOptionsSetRepoAgentDirectory(h, directory C.uintptr_t) C.uintptr_t {
	return setText(h, directory, "repository agent directory", func(o *serverOptions, v string) { o.server.RepositoryAgentDirectory = v })
}

//export TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit
func TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(h C.uintptr_t, kind, device C.int, fraction C.double) C.uintptr_t {
	return set(h, func(*serverOptions) handle.Handle {
		switch {
		case device < 0:
			return object.Errorf(backend.InvalidArg, "expects device ID >= 0, got %d", int(device))
		case !(fraction >= 0 && fraction <= 1):
			return object.Errorf(backend.InvalidArg, "expects limit fraction to be in range [0.0, 1.0], got %f", float64(fraction))
		case kind != 2:
			return object.Errorf(backend.InvalidArg, "given device kind is not supported, got: %s", kindWord(kind))
		}
		return 0
	})
}

//export TRITONSERVER_ServerOptionsSetBackendConfig
func TRITONSERVER_ServerOptionsSetBackendConfig(h, name, setting, value C.uintptr_t) C.uintptr_t {
	return setPair(h, name, setting, value, func(o *serverOptions) map[string]map[string]string { return o.server.BackendSettings })
}

//export TRITONSERVER_ServerOptionsSetHostPolicy
func TRITONSERVER_ServerOptionsSetHostPolicy(h, name, setting, value C.uintptr_t) C.uintptr_t {
	if s := object.String(uintptr(setting)); s != "numa-node" && s != "cpu-cores" {
		return C.uintptr_t(object.Errorf(backend.Unsupported,
			"Unsupported host policy setting '%s' is specified, supported settings are 'numa-node', 'cpu-cores'", s))
	}
	return setPair(h, name, setting, value, func(o *serverOptions) map[string]map[string]string { return o.server.HostPolicies })
}

// setPair sets one setting of what has a name.
func setPair(h, name, setting, value C.uintptr_t, of func(o *serverOptions) map[string]map[string]string) C.uintptr_t {
	if name == 0 || setting == 0 || value == 0 {
		return C.uintptr_t(object.Null("name, setting and value"))
	}
	return setValue(h, func(o *serverOptions) {
		all, key := of(o), object.String(uintptr(name))
		if all[key] == nil {
			all[key] = map[string]string{}
		}
		all[key][object.String(uintptr(setting))] = object.String(uintptr(value))
	})
}

// setLogOption changes the log at once.
func setLogOption(h C.uintptr_t, f func(s *neso.LogSettings)) C.uintptr_t {
	return set(h, func(*serverOptions) handle.Handle {
		if err := setLog(f); err != nil {
			return object.Errorf(backend.Unavailable, "%v", err)
		}
		return 0
	})
}

//export TRITONSERVER_ServerOptionsSetLogFile
func TRITONSERVER_ServerOptionsSetLogFile(h, file C.uintptr_t) C.uintptr_t {
	return set(h, func(*serverOptions) handle.Handle { return object.FromError(setLogFile(object.String(uintptr(file)))) })
}

//export TRITONSERVER_ServerOptionsSetLogInfo
func TRITONSERVER_ServerOptionsSetLogInfo(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setLogOption(h, func(s *neso.LogSettings) { s.NoInfo = !bool(on) })
}

//export TRITONSERVER_ServerOptionsSetLogWarn
func TRITONSERVER_ServerOptionsSetLogWarn(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setLogOption(h, func(s *neso.LogSettings) { s.NoWarnings = !bool(on) })
}

//export TRITONSERVER_ServerOptionsSetLogError
func TRITONSERVER_ServerOptionsSetLogError(h C.uintptr_t, on C.bool) C.uintptr_t {
	return setLogOption(h, func(s *neso.LogSettings) { s.NoErrors = !bool(on) })
}

//export TRITONSERVER_ServerOptionsSetLogVerbose
func TRITONSERVER_ServerOptionsSetLogVerbose(h C.uintptr_t, level C.int) C.uintptr_t {
	return setLogOption(h, func(s *neso.LogSettings) { s.Verbose = max(0, int(level)) })
}

//export TRITONSERVER_ServerOptionsSetLogFormat
func TRITONSERVER_ServerOptionsSetLogFormat(h C.uintptr_t, format C.int) C.uintptr_t {
	if format < 0 || format > 1 {
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "unknown log format '%d'", int(format)))
	}
	return setLogOption(h, func(s *neso.LogSettings) { s.Format = [...]string{"default", "ISO8601"}[format] })
}

// kindWord is the word of a TRITONSERVER_InstanceGroupKind.
func kindWord(kind C.int) string {
	words := [...]string{"AUTO", "CPU", "GPU", "MODEL"}
	if kind < 0 || int(kind) >= len(words) {
		return "<invalid>"
	}
	return words[kind]
}
