// Package gpu owns what the server knows of NVIDIA GPUs: which this process may
// use ([Driver.Devices]) and what they do ([Driver.Read]), through the
// management library NVML, which is opened at run time.
//
// Open gpu.go first; visible.go says which devices CUDA_VISIBLE_DEVICES leaves.
// Where the library is missing, Open says so, and the server has no GPUs.
package gpu
