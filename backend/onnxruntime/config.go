package onnxruntime

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// modelConfig is what this backend reads of a configuration beside the plain
// view of backend.Config.
type modelConfig struct {
	MaxBatchSize int        `json:"max_batch_size"`
	Input        []ioConfig `json:"input"`
	Output       []ioConfig `json:"output"`
	BatchInput   []struct {
		TargetName []string `json:"target_name"`
	} `json:"batch_input"`
	BatchOutput []struct {
		TargetName []string `json:"target_name"`
	} `json:"batch_output"`
	Optimization struct {
		Graph *struct {
			Level int `json:"level"`
		} `json:"graph"`
		ExecutionAccelerators struct {
			GPU []accelerator `json:"gpu_execution_accelerator"`
			CPU []accelerator `json:"cpu_execution_accelerator"`
		} `json:"execution_accelerators"`
	} `json:"optimization"`
	DynamicBatching    json.RawMessage `json:"dynamic_batching"`
	EnsembleScheduling json.RawMessage `json:"ensemble_scheduling"`
	SequenceBatching   *struct {
		ControlInput []struct {
			Name string `json:"name"`
		} `json:"control_input"`
		State []struct {
			InputName  string `json:"input_name"`
			OutputName string `json:"output_name"`
		} `json:"state"`
	} `json:"sequence_batching"`
	ModelOperations struct {
		OpLibraryFilename []string `json:"op_library_filename"`
	} `json:"model_operations"`
}

type ioConfig struct {
	Name     string  `json:"name"`
	DataType string  `json:"data_type"`
	Dims     []int64 `json:"dims"`
}

// accelerator is one of optimization.execution_accelerators.
type accelerator struct {
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`
}

func parseConfig(cfg *backend.Config) (*modelConfig, error) {
	c := &modelConfig{}
	if len(cfg.JSON) == 0 { // a program that uses the backend without the server
		return c, nil
	}
	if err := json.Unmarshal(cfg.JSON, c); err != nil {
		return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", cfg.Name, err)
	}
	return c, nil
}

// parseBool reads a value as Triton's backends do.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("failed to convert '%s' to boolean", text)
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("failed to convert '%s' to integral number", text)
	}
	return int(n), nil
}
