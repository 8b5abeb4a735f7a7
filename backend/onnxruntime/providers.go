package onnxruntime

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// provider says how an accelerator of a configuration is reached.
type provider struct {
	// name is what the library lists, for example "TensorrtExecutionProvider".
	name string
	// generic is its name for the function that takes any provider; "" for one
	// with functions of its own.
	generic string
	// install says what has it.
	install string
}

var providers = map[string]provider{
	"tensorrt": {name: "TensorrtExecutionProvider", install: "onnxruntime-gpu and TensorRT"},
	"cuda":     {name: "CUDAExecutionProvider", install: "onnxruntime-gpu"},
	"openvino": {name: "OpenVINOExecutionProvider", generic: "OpenVINO", install: "onnxruntime-openvino"},
	"coreml":   {name: "CoreMLExecutionProvider", generic: "CoreML", install: "onnxruntime on macOS"},
	"xnnpack":  {name: "XnnpackExecutionProvider", generic: "XNNPACK", install: "a build of ONNX Runtime with XNNPACK"},
	"qnn":      {name: "QNNExecutionProvider", generic: "QNN", install: "onnxruntime-qnn"},
	"dml":      {name: "DmlExecutionProvider", generic: "DML", install: "onnxruntime-directml"},
	"webgpu":   {name: "WebGpuExecutionProvider", generic: "WebGPU", install: "a build of ONNX Runtime with WebGPU"},
	"azure":    {name: "AzureExecutionProvider", generic: "AZURE", install: "onnxruntime"},
}

// appendProviders adds the accelerators that the configuration names, and CUDA
// for instances on a GPU. The CPU always comes last.
func (e *environment) appendProviders(options uintptr, o *sessionOptions, cfg *backend.Config) error {
	cuda := map[string]string{}
	for _, a := range o.accelerators {
		p, known := providers[a.Name]
		if !known {
			return backend.Errorf(backend.InvalidArg, "unknown Execution Accelerator '%s' is requested (model '%s'; known ones: %s)",
				a.Name, cfg.Name, strings.Join(slices.Sorted(maps.Keys(providers)), ", "))
		}
		if a.Name == "cuda" {
			maps.Copy(cuda, a.Parameters)
			continue // once, behind TensorRT
		}
		if err := e.need(p, "execution accelerator '"+a.Name+"'", cfg); err != nil {
			return err
		}
		var err error
		if a.Name == "tensorrt" {
			var parameters map[string]string
			if parameters, err = tensorRTOptions(a.Parameters, o.device); err == nil {
				err = e.appendOwn(options, fnCreateTensorRTOptions, fnUpdateTensorRTOptions, fnAppendTensorRT, fnReleaseTensorRTOptions, parameters)
			}
		} else {
			keys, values := cStrings(a.Parameters)
			err = e.call(fnAppendExecutionProvider, options, uintptr(unsafe.Pointer(library.CString(p.generic))),
				uintptr(unsafe.Pointer(unsafe.SliceData(keys.table))), uintptr(unsafe.Pointer(unsafe.SliceData(values.table))),
				uintptr(len(a.Parameters)))
			keys.free()
			values.free()
		}
		if err != nil {
			return backend.Errorf(backend.AsError(err).Code, "execution accelerator '%s' of model '%s': %v", a.Name, cfg.Name, err)
		}
	}
	if o.kind != kindGPU && len(cuda) == 0 {
		return nil
	}
	if err := e.need(providers["cuda"], "instance group of "+o.kind, cfg); err != nil {
		return err
	}
	parameters, err := cudaOptions(cuda, o)
	if err == nil {
		err = e.appendOwn(options, fnCreateCUDAOptions, fnUpdateCUDAOptions, fnAppendCUDA, fnReleaseCUDAOptions, parameters)
	}
	if err != nil {
		return backend.Errorf(backend.AsError(err).Code, "CUDA for model '%s': %v", cfg.Name, err)
	}
	return nil
}

// need fails when the library was built without the provider.
func (e *environment) need(p provider, what string, cfg *backend.Config) error {
	if e.has(p.name) {
		return nil
	}
	return backend.Errorf(backend.InvalidArg,
		"%s of model '%s' needs %s, which ONNX Runtime %s of %s does not have (it has %s): install %s, or take it out of the configuration",
		what, cfg.Name, p.name, e.version, e.lib.Source, strings.Join(e.providers, ", "), p.install)
}

// appendOwn adds a provider that has option objects of its own.
func (e *environment) appendOwn(options uintptr, create, update, appendTo, release int, parameters map[string]string) error {
	var own uintptr
	if err := e.call(create, uintptr(unsafe.Pointer(&own))); err != nil {
		return err
	}
	defer e.release(release, own)
	keys, values := cStrings(parameters)
	defer keys.free()
	defer values.free()
	if err := e.call(update, own, uintptr(unsafe.Pointer(unsafe.SliceData(keys.table))),
		uintptr(unsafe.Pointer(unsafe.SliceData(values.table))), uintptr(len(parameters))); err != nil {
		return err
	}
	return e.call(appendTo, options, own)
}

// tensorRTOptions translates Triton's names into those of ONNX Runtime.
func tensorRTOptions(given map[string]string, device int) (map[string]string, error) {
	all := map[string]string{"device_id": strconv.Itoa(device)}
	for name, value := range given {
		switch name {
		case "precision_mode":
			switch value {
			case "FP32":
			case "FP16", "BF16", "INT8":
				all["trt_"+strings.ToLower(value)+"_enable"] = "1"
			default:
				return nil, backend.Errorf(backend.InvalidArg, "unsupported precision mode '%s' is requested", value)
			}
		case "max_workspace_size_bytes":
			all["trt_max_workspace_size"] = value
		case "int8_calibration_table_name", "int8_use_native_calibration_table":
			all["trt_"+name] = value
		case "device_id", "user_compute_stream", "has_user_compute_stream":
			return nil, backend.Errorf(backend.InvalidArg, "parameter '%s' is not for users: the instance group says the device", name)
		default:
			if !strings.HasPrefix(name, "trt_") {
				return nil, backend.Errorf(backend.InvalidArg, "unknown parameter '%s' is provided for TensorRT Execution Accelerator", name)
			}
			all[name] = value
		}
	}
	return all, nil
}

// Parameters of a model that are options of CUDA, as in Triton.
const (
	cudaSearch = "cudnn_conv_algo_search"
	cudaExtend = "arena_extend_strategy"
	cudaMemory = "gpu_mem_limit"
	cudaCopy   = "do_copy_in_default_stream"
)

var cudaParameters = []string{cudaSearch, cudaExtend, cudaMemory, cudaCopy}

// cudaOptions takes the accelerator's parameters, and those that Triton reads
// from the model's parameters.
func cudaOptions(given map[string]string, o *sessionOptions) (map[string]string, error) {
	all := map[string]string{"device_id": strconv.Itoa(o.device)}
	word := func(name string, words ...string) error {
		text, ok := o.cudaParameters[name]
		if !ok {
			return nil
		}
		n, err := parseInt(text)
		if err != nil || n < 0 || n >= len(words) {
			return backend.Errorf(backend.InvalidArg, "unsupported %s value '%s' is requested", name, text)
		}
		all[name] = words[n]
		return nil
	}
	if err := word(cudaSearch, "EXHAUSTIVE", "HEURISTIC", "DEFAULT"); err != nil {
		return nil, err
	}
	if err := word(cudaExtend, "kNextPowerOfTwo", "kSameAsRequested"); err != nil {
		return nil, err
	}
	for _, name := range []string{cudaMemory, cudaCopy} {
		if text, ok := o.cudaParameters[name]; ok {
			all[name] = text
		}
	}
	maps.Copy(all, given)
	return all, nil
}
