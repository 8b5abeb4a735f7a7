package limits

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

// ParamLoadLimit is the parameter of a model that bounds each step of a worker's
// load in seconds; SettingLoadLimit is that of a backend.
const (
	ParamLoadLimit   = "LOAD_TIMEOUT_SECONDS"
	SettingLoadLimit = "load-timeout-seconds"
)

// Parameters of a model that limit its workers, each of them by itself.
const (
	ParamMemory    = "WORKER_MEMORY_BYTES"
	paramOpenFiles = "WORKER_OPEN_FILES"
	paramCPU       = "WORKER_CPU_SECONDS"
)

const (
	// defaultLoadLimit is far above the time of any load that succeeds: engines are
	// built in an hour. Triton waits for ever.
	defaultLoadLimit = 2 * time.Hour
	// limitedLoadLimit is for workers whose memory is limited: libraries of frameworks
	// ask again and again, for ever, for memory that they cannot have.
	limitedLoadLimit = 5 * time.Minute
)

// Supported says that the system can do what Limits say, and run workers as other users and on
// some processors. What it can do without is in [sets].
const Supported = runtime.GOOS == "linux"

// Limits bound what one worker process may use; 0 means no bound of ours.
type Limits struct {
	// Memory is bytes of its own, writable memory. The shared memory of tensors does
	// not count, nor do libraries.
	Memory uint64 `json:"memory,omitempty"`
	// OpenFiles is how many descriptors it may have.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// CPU is seconds of CPU time over its whole life; a worker that has used them is
	// ended and replaced.
	CPU uint64 `json:"cpu,omitempty"`
}

// leastFiles is what a worker needs for itself.
const leastFiles = 32

// Of reads the limits in the parameters of a model.
func Of(parameters map[string]string) (l Limits, err error) {
	for _, p := range []struct {
		name  string
		least uint64
		to    *uint64
	}{{ParamMemory, 1 << 20, &l.Memory}, {paramOpenFiles, leastFiles, &l.OpenFiles}, {paramCPU, 1, &l.CPU}} {
		text, ok := parameters[p.name]
		if !ok {
			continue
		}
		n, ok := parseSize(text)
		if !ok || n < p.least {
			return Limits{}, backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number from %d on", p.name, text, p.least)
		}
		if !sets(p.name) {
			return Limits{}, backend.Errorf(backend.Unsupported, "%s: the system cannot limit that (%s)", p.name, runtime.GOOS)
		}
		*p.to = n
	}
	return l, nil
}

// CheckHostPolicy reports whether workers can be told where to run.
func CheckHostPolicy(p *backend.HostPolicy) error {
	if p != nil && !Supported {
		return backend.Errorf(backend.Unsupported, "host policy '%s': workers are bound on Linux only", p.Name)
	}
	return nil
}

// Parameters are the parameters of a model that Of and LoadLimitOf read.
var Parameters = []string{ParamMemory, paramOpenFiles, paramCPU, ParamLoadLimit}

// Check checks one parameter of a model, if it is one of Parameters.
func Check(parameters map[string]string, name string) error {
	one := map[string]string{name: parameters[name]}
	if _, err := Of(one); err != nil {
		return err
	}
	_, err := LoadLimitOf(one, nil)
	return err
}

// parseSize reads a number that may end in K, M, G or T (powers of 1024).
func parseSize(text string) (uint64, bool) {
	shift := 0
	if i := strings.IndexByte("KMGT", last(text)); i >= 0 {
		text, shift = text[:len(text)-1], 10*(i+1)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return n << shift, err == nil && n <= 1<<62>>shift
}

func last(text string) byte {
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

// ParseSeconds reads a number of seconds, which may have a fraction.
func ParseSeconds(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0) || seconds > 1e9 { // not for NaN either
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// LoadLimitOf returns how long each step of a load may take by the parameters
// of the model, else by the settings of its backend, else by default; 0 is no
// bound.
func LoadLimitOf(parameters, settings map[string]string) (time.Duration, error) {
	if text, ok := parameters[ParamLoadLimit]; ok {
		limit, ok := ParseSeconds(text)
		if !ok {
			return 0, backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number of seconds from 0 on", ParamLoadLimit, text)
		}
		return limit, nil
	}
	if text, ok := settings[SettingLoadLimit]; ok {
		limit, ok := ParseSeconds(text)
		if !ok {
			return 0, backend.Errorf(backend.InvalidArg, "%s must be a number of seconds from 0 on, found '%s'", SettingLoadLimit, text)
		}
		return limit, nil
	}
	if parameters[ParamMemory] != "" {
		return limitedLoadLimit, nil
	}
	return defaultLoadLimit, nil
}
