//go:build cgo

package capi

// #include <stdint.h>
import "C"

//export TRITONSERVER_InferenceTraceActivityString
func TRITONSERVER_InferenceTraceActivityString() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceActivityString")
}

//export TRITONSERVER_InferenceTraceContext
func TRITONSERVER_InferenceTraceContext() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceContext")
}

//export TRITONSERVER_InferenceTraceDelete
func TRITONSERVER_InferenceTraceDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceDelete")
}

//export TRITONSERVER_InferenceTraceId
func TRITONSERVER_InferenceTraceId() C.uintptr_t { return unsupported("TRITONSERVER_InferenceTraceId") }

//export TRITONSERVER_InferenceTraceLevelString
func TRITONSERVER_InferenceTraceLevelString() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceLevelString")
}

//export TRITONSERVER_InferenceTraceModelName
func TRITONSERVER_InferenceTraceModelName() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceModelName")
}

//export TRITONSERVER_InferenceTraceModelVersion
func TRITONSERVER_InferenceTraceModelVersion() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceModelVersion")
}

//export TRITONSERVER_InferenceTraceNew
func TRITONSERVER_InferenceTraceNew() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceNew")
}

//export TRITONSERVER_InferenceTraceParentId
func TRITONSERVER_InferenceTraceParentId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceParentId")
}

//export TRITONSERVER_InferenceTraceReportActivity
func TRITONSERVER_InferenceTraceReportActivity() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceReportActivity")
}

//export TRITONSERVER_InferenceTraceRequestId
func TRITONSERVER_InferenceTraceRequestId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceRequestId")
}

//export TRITONSERVER_InferenceTraceSetContext
func TRITONSERVER_InferenceTraceSetContext() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceSetContext")
}

//export TRITONSERVER_InferenceTraceSpawnChildTrace
func TRITONSERVER_InferenceTraceSpawnChildTrace() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceSpawnChildTrace")
}

//export TRITONSERVER_InferenceTraceTensorNew
func TRITONSERVER_InferenceTraceTensorNew() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceTraceTensorNew")
}

//export TRITONSERVER_ServerDelete
func TRITONSERVER_ServerDelete() C.uintptr_t { return unsupported("TRITONSERVER_ServerDelete") }

//export TRITONSERVER_ServerInferAsync
func TRITONSERVER_ServerInferAsync() C.uintptr_t { return unsupported("TRITONSERVER_ServerInferAsync") }

//export TRITONSERVER_ServerIsLive
func TRITONSERVER_ServerIsLive() C.uintptr_t { return unsupported("TRITONSERVER_ServerIsLive") }

//export TRITONSERVER_ServerIsReady
func TRITONSERVER_ServerIsReady() C.uintptr_t { return unsupported("TRITONSERVER_ServerIsReady") }

//export TRITONSERVER_ServerLoadModel
func TRITONSERVER_ServerLoadModel() C.uintptr_t { return unsupported("TRITONSERVER_ServerLoadModel") }

//export TRITONSERVER_ServerLoadModelWithParameters
func TRITONSERVER_ServerLoadModelWithParameters() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerLoadModelWithParameters")
}

//export TRITONSERVER_ServerMetadata
func TRITONSERVER_ServerMetadata() C.uintptr_t { return unsupported("TRITONSERVER_ServerMetadata") }

//export TRITONSERVER_ServerModelBatchProperties
func TRITONSERVER_ServerModelBatchProperties() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelBatchProperties")
}

//export TRITONSERVER_ServerModelConfig
func TRITONSERVER_ServerModelConfig() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelConfig")
}

//export TRITONSERVER_ServerModelIndex
func TRITONSERVER_ServerModelIndex() C.uintptr_t { return unsupported("TRITONSERVER_ServerModelIndex") }

//export TRITONSERVER_ServerModelIsReady
func TRITONSERVER_ServerModelIsReady() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelIsReady")
}

//export TRITONSERVER_ServerModelMetadata
func TRITONSERVER_ServerModelMetadata() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelMetadata")
}

//export TRITONSERVER_ServerModelStatistics
func TRITONSERVER_ServerModelStatistics() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelStatistics")
}

//export TRITONSERVER_ServerModelTransactionProperties
func TRITONSERVER_ServerModelTransactionProperties() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerModelTransactionProperties")
}

//export TRITONSERVER_ServerNew
func TRITONSERVER_ServerNew() C.uintptr_t { return unsupported("TRITONSERVER_ServerNew") }

//export TRITONSERVER_ServerPollModelRepository
func TRITONSERVER_ServerPollModelRepository() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerPollModelRepository")
}

//export TRITONSERVER_ServerRegisterModelRepository
func TRITONSERVER_ServerRegisterModelRepository() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerRegisterModelRepository")
}

//export TRITONSERVER_ServerSetExitTimeout
func TRITONSERVER_ServerSetExitTimeout() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerSetExitTimeout")
}

//export TRITONSERVER_ServerStop
func TRITONSERVER_ServerStop() C.uintptr_t { return unsupported("TRITONSERVER_ServerStop") }

//export TRITONSERVER_ServerUnloadModel
func TRITONSERVER_ServerUnloadModel() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerUnloadModel")
}

//export TRITONSERVER_ServerUnloadModelAndDependents
func TRITONSERVER_ServerUnloadModelAndDependents() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerUnloadModelAndDependents")
}

//export TRITONSERVER_ServerUnregisterModelRepository
func TRITONSERVER_ServerUnregisterModelRepository() C.uintptr_t {
	return unsupported("TRITONSERVER_ServerUnregisterModelRepository")
}
