package hosted

import (
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// framework is what the server knows of a backend without a worker.
type framework struct {
	backend string
	// module is what the worker imports, distribution its packages' names as pip
	// has them (any of them, between bars), install what to tell users to install.
	module, distribution, install string
	// preload is imported once, before workers are forked. TensorFlow starts threads
	// when it is imported.
	preload string
	// files are the names under which a model lies, the first found counts.
	files   []string
	devices []string
	// cuda is what the interpreter's packages have, as a path below site-packages,
	// when the framework can use an NVIDIA GPU; "" for never, "." for always;
	// withoutCUDA what they have when it cannot all the same.
	cuda, withoutCUDA string
	// parameters and settings are those that the framework's models know beside the
	// ones of all Python workers.
	parameters, settings []string
	// names are those of parameters that name a file of the model.
	names []string
	// refuse says no to a file, before a worker touches it.
	refuse func(cfg *backend.Config, name string, settings *backend.Settings) error
}

const settingPickle = "allow-pickle"

var table = []framework{
	{
		backend: "pytorch", module: "torch", distribution: "torch", install: "torch", preload: "torch",
		files: []string{"model.pt", "model.pt2", "model.py"}, devices: []string{"CPU", "CUDA"}, cuda: "torch/lib/libtorch_cuda.so",
		parameters: []string{
			"INTRA_OP_THREAD_COUNT", "INTER_OP_THREAD_COUNT", "INFERENCE_MODE", "DISABLE_OPTIMIZED_EXECUTION", "DISABLE_CUDNN",
			"ENABLE_CACHE_CLEANING", "ENABLE_WEIGHT_SHARING",
			"ENABLE_JIT_PROFILING", "ENABLE_JIT_EXECUTOR", "ENABLE_TENSOR_FUSER", "MODEL_CLASS", "TORCH_COMPILE_OPTIONAL_PARAMETERS",
			"NUM_THREADS", "NUM_INTEROP_THREADS",
		},
	},
	{
		backend: "tensorflow", module: "tensorflow", distribution: "tensorflow|tensorflow-cpu", install: "tensorflow",
		files: []string{"model.savedmodel", "model.graphdef", "model.keras", "model.tflite"}, devices: []string{"CPU", "CUDA"},
		cuda: "nvidia/cudnn", withoutCUDA: "tensorflow_cpu-*.dist-info",
		parameters: []string{
			"TF_GRAPH_TAG", "TF_SIGNATURE_DEF", "TF_INIT_OPS_FILE", "TF_NUM_INTRA_THREADS", "TF_NUM_INTER_THREADS",
			"TF_USE_PER_SESSION_THREADS", "MAX_SESSION_SHARE_COUNT", // each instance is a process: as it is with both
		},
		names: []string{"TF_INIT_OPS_FILE"},
	},
	{
		backend: "sklearn", module: "sklearn", distribution: "scikit-learn", install: "scikit-learn skops", preload: "sklearn.pipeline",
		files: []string{"model.skops", "model.joblib", "model.pkl"}, devices: []string{"CPU"},
		parameters: []string{"trusted_types", "output.*"}, settings: []string{settingPickle}, refuse: refusePickle,
	},
	{
		backend: "tensorrt", module: "tensorrt", distribution: "tensorrt|tensorrt-cu12|tensorrt-cu13", install: "tensorrt",
		files: []string{"model.plan"}, devices: []string{"CUDA"}, cuda: ".", parameters: []string{},
	},
}

// refusePickle refuses files that may run code when they are read, unless who
// started the server allows it: whatever is no .skops is read as a pickle.
func refusePickle(cfg *backend.Config, name string, settings *backend.Settings) error {
	if strings.EqualFold(filepath.Ext(name), ".skops") {
		return nil
	}
	switch strings.ToLower(settings.Values[settingPickle]) {
	case "true", "1", "yes", "on":
		return nil
	}
	return backend.Errorf(backend.InvalidArg,
		"'%s/%d/%s' is a pickle, which can run any code when it is read: it is refused. Save the model with skops.io.dump as model.skops, "+
			"or, if you trust who can write to the repository, start the server with "+settings.Option("allow-pickle"), cfg.Name, cfg.Version, name)
}
