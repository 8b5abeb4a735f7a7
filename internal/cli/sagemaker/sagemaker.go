// Package sagemaker owns what containers of Amazon SageMaker are set up by: the
// variables of Triton's start script, as options of `neso serve`.
package sagemaker

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/internal/repository/layout"
)

// models is where the cloud puts the model of a container that has one.
const models = "/opt/ml/model"

const more = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"

// variables are in the order of Triton's start script.
var variables = []struct {
	// name's value is what option is given, behind prefix.
	name, option, prefix string
	// def is what the container's start takes without the variable; "" for what the
	// option says by itself.
	def string
}{
	// its value is the option's, whatever its name
	{name: "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING", option: "model-namespacing", def: "true"},
	{name: "SAGEMAKER_BIND_TO_PORT", option: "sagemaker-port"},
	{name: "SAGEMAKER_SAFE_PORT_RANGE", option: "sagemaker-safe-port-range"},
	{name: "SAGEMAKER_TRITON_ALLOW_GRPC", option: "allow-grpc", def: "false"},
	{name: "SAGEMAKER_TRITON_ALLOW_METRICS", option: "allow-metrics", def: "false"},
	{name: "SAGEMAKER_TRITON_METRICS_PORT", option: "metrics-port"},
	{name: "SAGEMAKER_TRITON_GRPC_PORT", option: "grpc-port"},
	{name: "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", option: "buffer-manager-thread-count"},
	{name: "SAGEMAKER_TRITON_THREAD_COUNT", option: "sagemaker-thread-count"},
	{name: "SAGEMAKER_TRITON_LOG_VERBOSE", option: "log-verbose", def: "true"},
	{name: "SAGEMAKER_TRITON_LOG_INFO", option: "log-info"},
	{name: "SAGEMAKER_TRITON_LOG_WARNING", option: "log-warning"},
	{name: "SAGEMAKER_TRITON_LOG_ERROR", option: "log-error"},
	{name: "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE", option: "backend-config", prefix: "python,shm-default-byte-size="},
	{name: "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE", option: "backend-config", prefix: "python,shm-growth-byte-size="},
	{name: "SAGEMAKER_TRITON_TENSORFLOW_VERSION", option: "backend-config", prefix: "tensorflow,version="},
	{name: "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", option: "model-load-gpu-limit", prefix: "0:"},
}

// Setting is a variable that is set, with the arguments that it means.
type Setting struct {
	Variable, Value string
	Arguments       []string
}

// Settings returns what the variables say.
func Settings(getenv func(string) string) []Setting {
	var all []Setting
	for _, v := range variables {
		if value := getenv(v.name); value != "" {
			all = append(all, Setting{v.name, value, []string{"--" + v.option + "=" + v.prefix + value}})
		}
	}
	if value := getenv(more); value != "" {
		all = append(all, Setting{more, value, strings.Fields(value)})
	}
	return all
}

// LivePing reports whether /ping tells of liveness: with many models in a container
// there may be none yet.
func LivePing(getenv func(string) string) bool {
	mode := cmp.Or(getenv("SAGEMAKER_TRITON_OVERRIDE_PING_MODE"), getenv("SAGEMAKER_TRITON_PING_MODE"))
	if mode == "" {
		return getenv("SAGEMAKER_MULTI_MODEL") == "true"
	}
	return mode == "live"
}

// Start returns the arguments that a container of the cloud is started with: those
// of one model in a repository, by default /opt/ml/model, or of many that the cloud
// loads. What it has to say goes to out.
func Start(getenv func(string) string, repository string, out io.Writer) ([]string, error) {
	start := []string{"--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit"}
	for _, v := range variables {
		if v.def != "" && getenv(v.name) == "" {
			start = append(start, "--"+v.option+"="+v.def)
		}
	}
	if getenv("SAGEMAKER_MULTI_MODEL") == "true" {
		mode := "ready"
		if LivePing(getenv) {
			mode = "live"
		}
		fmt.Fprintf(out, "Many models in one container: the cloud loads them, /ping tells whether the server is %s\n", mode)
		return start, nil
	}
	if repository == "" {
		repository = models
		start = append(start, "--model-repository="+repository)
	}
	model, err := choose(getenv, repository, out)
	return append(start, "--load-model="+model), err
}

// choose finds the model to load in the cloud's repository.
func choose(getenv func(string) string, repository string, out io.Writer) (string, error) {
	if _, err := os.Stat(filepath.Join(repository, "config.pbtxt")); err == nil {
		return "", fmt.Errorf("ERROR: Incorrect directory structure. %s is a model: it must contain the model's directory, "+
			"%s/<model>/config.pbtxt", repository, repository)
	}
	if name := getenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"); name != "" {
		if info, err := os.Stat(filepath.Join(repository, name)); err != nil || !info.IsDir() {
			return "", fmt.Errorf("ERROR: Directory with provided SAGEMAKER_TRITON_DEFAULT_MODEL_NAME %s does not exist in %s", name, repository)
		}
		return name, nil
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		return "", fmt.Errorf("ERROR: No model found in model repository: %w", err)
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() && !layout.NoModel(e.Name()) {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("ERROR: No model found in model repository %s", repository)
	case 1:
		fmt.Fprintf(out, "WARNING: No SAGEMAKER_TRITON_DEFAULT_MODEL_NAME provided. Starting with the only existing model directory %s\n",
			found[0])
		return found[0], nil
	}
	return "", fmt.Errorf("ERROR: More than 1 model directory found in model repository: %s. Give a single one, or say with "+
		"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME which to serve", strings.Join(found, " "))
}
