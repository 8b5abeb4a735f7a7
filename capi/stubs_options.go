//go:build cgo

package capi

// #include <stdint.h>
import "C"

//export TRITONSERVER_GetMetricFamilyKind
func TRITONSERVER_GetMetricFamilyKind() C.uintptr_t {
	return unsupported("TRITONSERVER_GetMetricFamilyKind")
}

//export TRITONSERVER_GetMetricKind
func TRITONSERVER_GetMetricKind() C.uintptr_t { return unsupported("TRITONSERVER_GetMetricKind") }

//export TRITONSERVER_MetricArgsDelete
func TRITONSERVER_MetricArgsDelete() C.uintptr_t { return unsupported("TRITONSERVER_MetricArgsDelete") }

//export TRITONSERVER_MetricArgsNew
func TRITONSERVER_MetricArgsNew() C.uintptr_t { return unsupported("TRITONSERVER_MetricArgsNew") }

//export TRITONSERVER_MetricArgsSetHistogram
func TRITONSERVER_MetricArgsSetHistogram() C.uintptr_t {
	return unsupported("TRITONSERVER_MetricArgsSetHistogram")
}

//export TRITONSERVER_MetricDelete
func TRITONSERVER_MetricDelete() C.uintptr_t { return unsupported("TRITONSERVER_MetricDelete") }

//export TRITONSERVER_MetricFamilyDelete
func TRITONSERVER_MetricFamilyDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_MetricFamilyDelete")
}

//export TRITONSERVER_MetricFamilyNew
func TRITONSERVER_MetricFamilyNew() C.uintptr_t { return unsupported("TRITONSERVER_MetricFamilyNew") }

//export TRITONSERVER_MetricIncrement
func TRITONSERVER_MetricIncrement() C.uintptr_t { return unsupported("TRITONSERVER_MetricIncrement") }

//export TRITONSERVER_MetricNew
func TRITONSERVER_MetricNew() C.uintptr_t { return unsupported("TRITONSERVER_MetricNew") }

//export TRITONSERVER_MetricNewWithArgs
func TRITONSERVER_MetricNewWithArgs() C.uintptr_t {
	return unsupported("TRITONSERVER_MetricNewWithArgs")
}

//export TRITONSERVER_MetricObserve
func TRITONSERVER_MetricObserve() C.uintptr_t { return unsupported("TRITONSERVER_MetricObserve") }

//export TRITONSERVER_MetricSet
func TRITONSERVER_MetricSet() C.uintptr_t { return unsupported("TRITONSERVER_MetricSet") }

//export TRITONSERVER_MetricValue
func TRITONSERVER_MetricValue() C.uintptr_t { return unsupported("TRITONSERVER_MetricValue") }

//export TRITONSERVER_MetricsDelete
func TRITONSERVER_MetricsDelete() C.uintptr_t { return unsupported("TRITONSERVER_MetricsDelete") }

//export TRITONSERVER_MetricsFormatted
func TRITONSERVER_MetricsFormatted() C.uintptr_t { return unsupported("TRITONSERVER_MetricsFormatted") }

//export TRITONSERVER_ServerMetrics
func TRITONSERVER_ServerMetrics() C.uintptr_t { return unsupported("TRITONSERVER_ServerMetrics") }

//export TRITONSERVER_ServerOptionsAddRateLimiterResource
func TRITONSERVER_ServerOptionsAddRateLimiterResource() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsAddRateLimiterResource")
}

//export TRITONSERVER_ServerOptionsDelete
func TRITONSERVER_ServerOptionsDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsDelete")
}

//export TRITONSERVER_ServerOptionsNew
func TRITONSERVER_ServerOptionsNew() C.uintptr_t { return unsupported("TRITONSERVER_ServerOptionsNew") }

//export TRITONSERVER_ServerOptionsSetBackendConfig
func TRITONSERVER_ServerOptionsSetBackendConfig() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetBackendConfig")
}

//export TRITONSERVER_ServerOptionsSetBackendDirectory
func TRITONSERVER_ServerOptionsSetBackendDirectory() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetBackendDirectory")
}

//export TRITONSERVER_ServerOptionsSetBufferManagerThreadCount
func TRITONSERVER_ServerOptionsSetBufferManagerThreadCount() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetBufferManagerThreadCount")
}

//export TRITONSERVER_ServerOptionsSetCacheConfig
func TRITONSERVER_ServerOptionsSetCacheConfig() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetCacheConfig")
}

//export TRITONSERVER_ServerOptionsSetCacheDirectory
func TRITONSERVER_ServerOptionsSetCacheDirectory() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetCacheDirectory")
}

//export TRITONSERVER_ServerOptionsSetCpuMetrics
func TRITONSERVER_ServerOptionsSetCpuMetrics() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetCpuMetrics")
}

//export TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize
func TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize")
}

//export TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize
func TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize")
}

//export TRITONSERVER_ServerOptionsSetEnablePeerAccess
func TRITONSERVER_ServerOptionsSetEnablePeerAccess() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetEnablePeerAccess")
}

//export TRITONSERVER_ServerOptionsSetExitOnError
func TRITONSERVER_ServerOptionsSetExitOnError() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetExitOnError")
}

//export TRITONSERVER_ServerOptionsSetExitTimeout
func TRITONSERVER_ServerOptionsSetExitTimeout() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetExitTimeout")
}

//export TRITONSERVER_ServerOptionsSetGpuMetrics
func TRITONSERVER_ServerOptionsSetGpuMetrics() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetGpuMetrics")
}

//export TRITONSERVER_ServerOptionsSetHostPolicy
func TRITONSERVER_ServerOptionsSetHostPolicy() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetHostPolicy")
}

//export TRITONSERVER_ServerOptionsSetLogError
func TRITONSERVER_ServerOptionsSetLogError() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogError")
}

//export TRITONSERVER_ServerOptionsSetLogFile
func TRITONSERVER_ServerOptionsSetLogFile() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogFile")
}

//export TRITONSERVER_ServerOptionsSetLogFormat
func TRITONSERVER_ServerOptionsSetLogFormat() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogFormat")
}

//export TRITONSERVER_ServerOptionsSetLogInfo
func TRITONSERVER_ServerOptionsSetLogInfo() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogInfo")
}

//export TRITONSERVER_ServerOptionsSetLogVerbose
func TRITONSERVER_ServerOptionsSetLogVerbose() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogVerbose")
}

//export TRITONSERVER_ServerOptionsSetLogWarn
func TRITONSERVER_ServerOptionsSetLogWarn() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetLogWarn")
}

//export TRITONSERVER_ServerOptionsSetMetrics
func TRITONSERVER_ServerOptionsSetMetrics() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetMetrics")
}

//export TRITONSERVER_ServerOptionsSetMetricsConfig
func TRITONSERVER_ServerOptionsSetMetricsConfig() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetMetricsConfig")
}

//export TRITONSERVER_ServerOptionsSetMetricsInterval
func TRITONSERVER_ServerOptionsSetMetricsInterval() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetMetricsInterval")
}

//export TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability
func TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability")
}

//export TRITONSERVER_ServerOptionsSetModelConfigName
func TRITONSERVER_ServerOptionsSetModelConfigName() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelConfigName")
}

//export TRITONSERVER_ServerOptionsSetModelControlMode
func TRITONSERVER_ServerOptionsSetModelControlMode() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelControlMode")
}

//export TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit
func TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit")
}

//export TRITONSERVER_ServerOptionsSetModelLoadRetryCount
func TRITONSERVER_ServerOptionsSetModelLoadRetryCount() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelLoadRetryCount")
}

//export TRITONSERVER_ServerOptionsSetModelLoadThreadCount
func TRITONSERVER_ServerOptionsSetModelLoadThreadCount() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelLoadThreadCount")
}

//export TRITONSERVER_ServerOptionsSetModelNamespacing
func TRITONSERVER_ServerOptionsSetModelNamespacing() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelNamespacing")
}

//export TRITONSERVER_ServerOptionsSetModelRepositoryPath
func TRITONSERVER_ServerOptionsSetModelRepositoryPath() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetModelRepositoryPath")
}

//export TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize
func TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize")
}

//export TRITONSERVER_ServerOptionsSetRateLimiterMode
func TRITONSERVER_ServerOptionsSetRateLimiterMode() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetRateLimiterMode")
}

//export TRITONSERVER_ServerOptionsSetRepoAgentDirectory
func TRITONSERVER_ServerOptionsSetRepoAgentDirectory() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetRepoAgentDirectory")
}

//export TRITONSERVER_ServerOptionsSetResponseCacheByteSize
func TRITONSERVER_ServerOptionsSetResponseCacheByteSize() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetResponseCacheByteSize")
}

//export TRITONSERVER_ServerOptionsSetServerId
func TRITONSERVER_ServerOptionsSetServerId() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetServerId")
}

//export TRITONSERVER_ServerOptionsSetStartupModel
func TRITONSERVER_ServerOptionsSetStartupModel() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetStartupModel")
}

//export TRITONSERVER_ServerOptionsSetStrictModelConfig
func TRITONSERVER_ServerOptionsSetStrictModelConfig() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetStrictModelConfig")
}

//export TRITONSERVER_ServerOptionsSetStrictReadiness
func TRITONSERVER_ServerOptionsSetStrictReadiness() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerOptionsSetStrictReadiness")
}
