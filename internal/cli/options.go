package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso"
)

// serveOptions is what the command line of `neso serve` says.
type serveOptions struct {
	server neso.Server
	log    neso.LogSettings
	tlsOptions
	cloudOptions
	traceOptions
	// warnings are logged once the log is open.
	warnings []string

	httpAddress, grpcAddress, metricsAddress string
	httpPort, grpcPort, metricsPort          int
	allowHTTP, allowGRPC, allowMetrics       bool
	strictModelConfig                        *bool
	python, workerUser                       string
	workerEnv                                []string
	deviceMemory                             map[int]int64
	cudaLibrary                              string
	controlFD, descriptorFD, optionsFD       int
	allowBind                                *bool
	help                                     bool
	// single says that models are named by their paths, in front of the options.
	single bool
}

const (
	groupGlobal     = ""
	groupServer     = "Server"
	groupLogging    = "Logging"
	groupRepository = "Model Repository"
	groupHTTP       = "HTTP"
	groupGRPC       = "GRPC"
	groupSagemaker  = "Sagemaker"
	groupVertex     = "Vertex"
	groupMetrics    = "Metrics"
	groupTracing    = "Tracing"
	groupBackend    = "Backend"
	groupAgent      = "Repository Agent"
	groupCache      = "Response Cache"
	groupRate       = "Rate Limiter"
	groupMemory     = "Memory/Device Management"
	groupSharedMem  = "Shared Memory"
	groupDeprecated = "DEPRECATED"
	groupNeso       = "Neso"
)

func boolVar(p func(*serveOptions) *bool) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseBool(s)
		*p(o) = v
		return err
	}
}

// notVar takes a boolean whose field says the opposite.
func notVar(p func(*serveOptions) *bool) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseBool(s)
		*p(o) = !v
		return err
	}
}

func intVar(p func(*serveOptions) *int) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseInt(s)
		*p(o) = v
		return err
	}
}

func stringVar(p func(*serveOptions) *string) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		*p(o) = s
		return nil
	}
}

func listVar(p func(*serveOptions) *[]string) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		if list := p(o); !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
		return nil
	}
}

func millisVar(p func(*serveOptions) *time.Duration) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseInt(s)
		*p(o) = time.Duration(v) * time.Millisecond
		return err
	}
}

// wordVar takes one of the words, whatever the case.
func wordVar(optionName string, words []string, set func(*serveOptions, string) error) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		if w := strings.ToLower(s); slices.Contains(words, w) {
			return set(o, w)
		}
		return fmt.Errorf("invalid argument for --%s: got %q, expected one of %s", optionName, s, strings.Join(words, ", "))
	}
}

// checkInt accepts and checks a number that has no effect.
func checkInt(low, high int) func(*serveOptions, string) error {
	return func(_ *serveOptions, s string) error {
		v, err := parseInt(s)
		if err == nil && (v < low || v > high) {
			return fmt.Errorf("expected a number from %d to %d, got %d", low, high, v)
		}
		return err
	}
}

func checkBool(_ *serveOptions, s string) error {
	_, err := parseBool(s)
	return err
}

func checkPair(delimiter string) func(*serveOptions, string) error {
	return func(_ *serveOptions, s string) error {
		_, _, err := parsePair(s, delimiter)
		return err
	}
}

// checkGPULimit takes <device>:<fraction>.
func checkGPULimit(_ *serveOptions, s string) error {
	device, fraction, err := parsePair(s, ":")
	if err != nil {
		return err
	}
	if n, err := parseInt(device); err != nil {
		return err
	} else if n < 0 {
		return fmt.Errorf("--model-load-gpu-limit expects device ID >= 0, got %d", n)
	}
	if f, err := strconv.ParseFloat(fraction, 64); err != nil || f < 0 || f > 1 {
		return fmt.Errorf("--model-load-gpu-limit expects limit fraction to be in range [0.0, 1.0], got %s", fraction)
	}
	return nil
}

func setVerbose(o *serveOptions, s string) error {
	if b, err := parseBool(s); err == nil && s != "0" && s != "1" {
		o.log.Verbose = 0
		if b {
			o.log.Verbose = 1
		}
		return nil
	}
	n, err := parseInt(s)
	o.log.Verbose = max(0, n)
	return err
}

// logFormats are those of the log, the default one first.
var logFormats = [...]string{"default", "ISO8601", "json"}

func setLogFormat(o *serveOptions, s string) error {
	if !slices.Contains(logFormats[:], s) {
		return fmt.Errorf("invalid argument for --log-format: got %q, expected %s, %s or %s", s, logFormats[0], logFormats[1], logFormats[2])
	}
	o.log.Format = s
	return nil
}

// setSharedMemory opens client shared memory to all clients, or closes it.
func setSharedMemory(o *serveOptions, s string) error {
	v, err := parseBool(s)
	o.server.SharedMemory = "never"
	if v {
		o.server.SharedMemory = "always"
	}
	return err
}

func setMaxInput(o *serveOptions, s string) error {
	n, err := parseInt(s)
	if err != nil {
		return err
	}
	if n <= 0 {
		return errors.New("Error: --http-max-input-size must be greater than 0.") //nolint:staticcheck // Triton's text
	}
	o.server.HTTP.MaxInputSize = int64(n)
	return nil
}

func setBackendConfig(o *serveOptions, s string) error {
	name, setting, value, err := parseSetting("backend-config", "backend name", s)
	if err != nil {
		return err
	}
	all := o.server.BackendSettings
	if all == nil {
		all = map[string]map[string]string{}
		o.server.BackendSettings = all
	}
	if all[name] == nil {
		all[name] = map[string]string{}
	}
	all[name][setting] = value
	return nil
}

// setAllowPickle tells all backends.
func setAllowPickle(o *serveOptions, s string) error {
	v, err := parseBool(s)
	if err != nil {
		return err
	}
	return setBackendConfig(o, fmt.Sprintf("allow-pickle=%t", v))
}

// setCacheConfig collects the settings of the response cache.
func setCacheConfig(o *serveOptions, s string) error {
	head, value, ok := strings.Cut(s, "=")
	name, setting, named := strings.Cut(head, ",")
	switch {
	case ok && named && name != "" && setting != "" && value != "":
	case !named || name == "":
		//nolint:staticcheck // Triton's text
		return fmt.Errorf("No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got %s", s)
	default:
		return fmt.Errorf("--cache-config option format is '<cache name>,<setting>=<value>'. Got %s", s)
	}
	c := &o.server.ResponseCache
	if c.Name != "" && c.Name != name {
		return errors.New("found multiple cache configurations, but only a single cache is currently supported")
	}
	if c.Settings == nil {
		c.Settings = map[string]string{}
	}
	c.Name, c.Settings[setting] = name, value
	return nil
}

func setCacheDirectory(o *serveOptions, s string) error {
	if s == "" {
		return errors.New("--cache-directory can not be empty")
	}
	o.server.ResponseCache.Directory = s
	return nil
}

// setCacheSize is --cache-config=local,size=<bytes> under its old name.
func setCacheSize(o *serveOptions, s string) error {
	n, err := parseInt(s)
	if err != nil {
		return err
	}
	if n <= 0 {
		return fmt.Errorf("expected a number of bytes, got %d", n)
	}
	c := &o.server.ResponseCache
	c.Name, c.Settings = "local", map[string]string{"size": strconv.Itoa(n)}
	return nil
}

func setCount(p func(*serveOptions) *int64) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		n, err := parseBytes(s)
		*p(o) = n
		return err
	}
}

func setMaxStreams(o *serveOptions, s string) error {
	n, err := parseInt(s)
	if err == nil && (n < 1 || n > 1<<30) {
		err = fmt.Errorf("expected a number from 1 to %d, got %d", 1<<30, n)
	}
	o.server.GRPC.MaxStreams = uint32(n)
	return err
}

// parseBytes reads a number with an optional suffix K, M, G (powers of 1024).
func parseBytes(s string) (int64, error) {
	t, shift := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B"), "I"), 0
	if t != "" {
		if i := strings.IndexByte("KMGT", t[len(t)-1]); i >= 0 {
			t, shift = t[:len(t)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("Invalid option value. Got %s", s) //nolint:staticcheck // Triton's text
	}
	return n << shift, nil
}
