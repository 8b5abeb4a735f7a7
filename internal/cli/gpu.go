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
	o.cudaLibrary, _ = lookup("NESO_CUDA_DRIVER") // the workers' too
}

// setDeviceMemory reads the pool of one GPU.
func setDeviceMemory(o *serveOptions, s string) error {
	first, second, err := parsePair(s, ":")
	if err != nil {
		return err
	}
	number, err := parseInt(first)
	if err != nil {
		return err
	}
	bytes, err := strconv.ParseInt(second, 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("--cuda-memory-pool-byte-size takes a number of bytes, got %q", second)
	case number < 0 || bytes < 0:
		return fmt.Errorf("--cuda-memory-pool-byte-size takes no negative numbers, got %q", s)
	}
	if o.deviceMemory == nil {
		o.deviceMemory = map[int]int64{}
	}
	o.deviceMemory[number] = bytes
	return nil
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
