package cli

import (
	"fmt"
	"strconv"
)

// gpuDefaults takes what the environment says of GPUs.
func (o *serveOptions) gpuDefaults(lookup func(string) (string, bool)) {
	if text, ok := lookup("CUDA_VISIBLE_DEVICES"); ok {
		o.server.GPU.Visible = &text
	}
	if _, ok := lookup("TRITON_SERVER_CPU_ONLY"); ok {
		o.server.Metrics.NoGPU = true
	}
}

// parseCapability reads a compute capability such as 7.5.
func parseCapability(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < 1000) {
		return 0, fmt.Errorf("--min-supported-compute-capability takes a compute capability such as 7.5, got %q", text)
	}
	if v == 0 {
		return -1, nil // any; the option's zero means its default
	}
	return v, nil
}
