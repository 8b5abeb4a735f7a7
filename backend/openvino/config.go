package openvino

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/faults"
	"github.com/nesoserve/neso/internal/processors"
)

// Names of Triton's parameters that are no properties of the library.
const (
	paramExtension = "CPU_EXTENSION_PATH"
	paramSkipBatch = "SKIP_OV_DYNAMIC_BATCHSIZE"
	paramPadding   = "ENABLE_BATCH_PADDING"
	paramReshape   = "RESHAPE_IO_LAYERS"
	paramDevice    = "TARGET_DEVICE"
	paramBF16      = "HINT_BF16"
)

// properties are the library's that a parameter of the same name sets; those
// with a number are checked here.
var properties = map[string]bool{
	"INFERENCE_NUM_THREADS": true, "COMPILATION_NUM_THREADS": true, "NUM_STREAMS": false, "PERFORMANCE_HINT": false,
	"PERFORMANCE_HINT_NUM_REQUESTS": true, "INFERENCE_PRECISION_HINT": false, "EXECUTION_MODE_HINT": false, "MODEL_PRIORITY": false,
	"CACHE_DIR":  false,
	"CACHE_MODE": false, "ENABLE_CPU_PINNING": false, "ENABLE_HYPER_THREADING": false, "SCHEDULING_CORE_TYPE": false,
	"KV_CACHE_PRECISION":  false,
	"KV_CACHE_GROUP_SIZE": true, "KEY_CACHE_PRECISION": false, "VALUE_CACHE_PRECISION": false, "DYNAMIC_QUANTIZATION_GROUP_SIZE": true,
	"MODEL_DISTRIBUTION_POLICY": false, "CPU_DENORMALS_OPTIMIZATION": false, "LOG_LEVEL": false, "MULTI_DEVICE_PRIORITIES": false,
}

// parameters are all that a model may have.
func parameters() []string {
	own := []string{paramExtension, paramSkipBatch, paramPadding, paramReshape, paramDevice, paramBF16, Spec.Parameter}
	return slices.AppendSeq(own, maps.Keys(properties))
}

// ownCode is backend.Driver.OwnCode.
func ownCode(cfg *backend.Config) string {
	if cfg.Parameters[paramExtension] != "" {
		return "parameters." + paramExtension
	}
	return Spec.OfModel(cfg)
}

// options are what a configuration says to this backend.
type options struct {
	device     string
	extension  string
	skipBatch  bool // leave the model's own batch size
	padding    bool // always run the largest batch
	reshape    bool // give inputs the dims of the configuration
	properties [][2]string
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	_, err := readOptions(&backend.Config{Name: cfg.Name, Parameters: map[string]string{name: cfg.Parameters[name]}})
	return err
}

// readOptions takes the options out of a configuration.
func readOptions(cfg *backend.Config) (*options, error) {
	yes := func(name string) bool { return strings.EqualFold(cfg.Parameters[name], "yes") }
	o := &options{
		device: "CPU", extension: cfg.Parameters[paramExtension],
		skipBatch: yes(paramSkipBatch), padding: yes(paramPadding), reshape: yes(paramReshape),
	}
	if text := cfg.Parameters[paramDevice]; text != "" {
		o.device = strings.ToUpper(text)
	} else if len(cfg.Instances) > 0 && cfg.Instances[0].Kind == "KIND_GPU" {
		o.device = "GPU." + strconv.Itoa(cfg.Instances[0].Device)
	}
	set := map[string]string{}
	if o.device == "CPU" {
		// One stream for each instance; together they have the cores. A server
		// shares them with other models, so that threads are not tied to any.
		cores := processors.Count()
		set["INFERENCE_NUM_THREADS"] = strconv.Itoa(cores)
		set["NUM_STREAMS"] = strconv.Itoa(min(cores, max(1, len(cfg.Instances))))
		set["ENABLE_CPU_PINNING"] = "NO"
	}
	var wrong faults.List
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		text, ok := cfg.Parameters[name]
		if !ok {
			continue
		}
		value, err := propertyValue(name, strings.TrimSpace(text), properties[name])
		if err != nil {
			wrong.Add(backend.Errorf(backend.InvalidArg, "unable to load model '%s': %v", cfg.Name, err))
		}
		set[name] = value
	}
	if text, ok := cfg.Parameters[paramBF16]; ok {
		if !strings.EqualFold(text, "yes") {
			wrong.Add(backend.Errorf(backend.InvalidArg, "expected the parameter '%s' to be YES, got %s", paramBF16, strings.ToLower(text)))
		}
		set["INFERENCE_PRECISION_HINT"] = "bf16"
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	if _, chosen := set["PERFORMANCE_HINT"]; chosen && cfg.Parameters["NUM_STREAMS"] == "" {
		delete(set, "NUM_STREAMS")
	}
	for _, name := range slices.SortedFunc(maps.Keys(set), cmp.Compare) {
		o.properties = append(o.properties, [2]string{name, set[name]})
	}
	return o, nil
}

// propertyValue checks a value in Triton's words.
func propertyValue(name, text string, number bool) (string, error) {
	wrong := func(want string) error {
		return backend.Errorf(backend.InvalidArg, "expected the parameter '%s' to be %s, got %s", name, want, strings.ToLower(text))
	}
	whole := text != "" && strings.Trim(text, "0123456789") == "" && len(text) < 10
	switch upper := strings.ToUpper(text); {
	case number && !whole:
		return "", wrong("a non-negative number")
	case name == "NUM_STREAMS" && !whole && upper != "AUTO" && upper != "NUMA":
		return "", wrong("either AUTO/NUMA/<int_value>")
	case name == "NUM_STREAMS", name == "ENABLE_CPU_PINNING", name == "ENABLE_HYPER_THREADING":
		return upper, nil
	case name == "PERFORMANCE_HINT":
		if !slices.Contains([]string{"LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT"}, upper) {
			return "", wrong("LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT")
		}
		return upper, nil
	}
	return text, nil
}
