//go:build cgo

package native

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/object"
)

// unsupported answers what this library does not do yet.
func unsupported(function string) C.uintptr_t {
	return C.uintptr_t(object.Errorf(backend.Unsupported, "%s is not supported", function))
}

//export TRITONBACKEND_ApiVersion
func TRITONBACKEND_ApiVersion() C.uintptr_t { return unsupported("TRITONBACKEND_ApiVersion") }

//export TRITONBACKEND_BackendArtifacts
func TRITONBACKEND_BackendArtifacts() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendArtifacts")
}

//export TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup
func TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup")
}

//export TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading
func TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading")
}

//export TRITONBACKEND_BackendConfig
func TRITONBACKEND_BackendConfig() C.uintptr_t { return unsupported("TRITONBACKEND_BackendConfig") }

//export TRITONBACKEND_BackendExecutionPolicy
func TRITONBACKEND_BackendExecutionPolicy() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendExecutionPolicy")
}

//export TRITONBACKEND_BackendMemoryManager
func TRITONBACKEND_BackendMemoryManager() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendMemoryManager")
}

//export TRITONBACKEND_BackendName
func TRITONBACKEND_BackendName() C.uintptr_t { return unsupported("TRITONBACKEND_BackendName") }

//export TRITONBACKEND_BackendSetExecutionPolicy
func TRITONBACKEND_BackendSetExecutionPolicy() C.uintptr_t {
	return unsupported("TRITONBACKEND_BackendSetExecutionPolicy")
}

//export TRITONBACKEND_BackendSetState
func TRITONBACKEND_BackendSetState() C.uintptr_t { return unsupported("TRITONBACKEND_BackendSetState") }

//export TRITONBACKEND_BackendState
func TRITONBACKEND_BackendState() C.uintptr_t { return unsupported("TRITONBACKEND_BackendState") }

//export TRITONBACKEND_InferenceRequestTimeoutMicroseconds
func TRITONBACKEND_InferenceRequestTimeoutMicroseconds() C.uintptr_t {
	return unsupported("TRITONBACKEND_InferenceRequestTimeoutMicroseconds")
}

//export TRITONBACKEND_InferenceResponseOutput
func TRITONBACKEND_InferenceResponseOutput() C.uintptr_t {
	return unsupported("TRITONBACKEND_InferenceResponseOutput")
}

//export TRITONBACKEND_InferenceResponseOutputByName
func TRITONBACKEND_InferenceResponseOutputByName() C.uintptr_t {
	return unsupported("TRITONBACKEND_InferenceResponseOutputByName")
}

//export TRITONBACKEND_InputBuffer
func TRITONBACKEND_InputBuffer() C.uintptr_t { return unsupported("TRITONBACKEND_InputBuffer") }

//export TRITONBACKEND_InputBufferAttributes
func TRITONBACKEND_InputBufferAttributes() C.uintptr_t {
	return unsupported("TRITONBACKEND_InputBufferAttributes")
}

//export TRITONBACKEND_InputBufferForHostPolicy
func TRITONBACKEND_InputBufferForHostPolicy() C.uintptr_t {
	return unsupported("TRITONBACKEND_InputBufferForHostPolicy")
}

//export TRITONBACKEND_InputProperties
func TRITONBACKEND_InputProperties() C.uintptr_t { return unsupported("TRITONBACKEND_InputProperties") }

//export TRITONBACKEND_InputPropertiesForHostPolicy
func TRITONBACKEND_InputPropertiesForHostPolicy() C.uintptr_t {
	return unsupported("TRITONBACKEND_InputPropertiesForHostPolicy")
}

//export TRITONBACKEND_MemoryManagerAllocate
func TRITONBACKEND_MemoryManagerAllocate() C.uintptr_t {
	return unsupported("TRITONBACKEND_MemoryManagerAllocate")
}

//export TRITONBACKEND_MemoryManagerFree
func TRITONBACKEND_MemoryManagerFree() C.uintptr_t {
	return unsupported("TRITONBACKEND_MemoryManagerFree")
}

//export TRITONBACKEND_ModelAutoCompleteConfig
func TRITONBACKEND_ModelAutoCompleteConfig() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelAutoCompleteConfig")
}

//export TRITONBACKEND_ModelBackend
func TRITONBACKEND_ModelBackend() C.uintptr_t { return unsupported("TRITONBACKEND_ModelBackend") }

//export TRITONBACKEND_ModelConfig
func TRITONBACKEND_ModelConfig() C.uintptr_t { return unsupported("TRITONBACKEND_ModelConfig") }

//export TRITONBACKEND_ModelInstanceDeviceId
func TRITONBACKEND_ModelInstanceDeviceId() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceDeviceId")
}

//export TRITONBACKEND_ModelInstanceHostPolicy
func TRITONBACKEND_ModelInstanceHostPolicy() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceHostPolicy")
}

//export TRITONBACKEND_ModelInstanceIsPassive
func TRITONBACKEND_ModelInstanceIsPassive() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceIsPassive")
}

//export TRITONBACKEND_ModelInstanceKind
func TRITONBACKEND_ModelInstanceKind() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceKind")
}

//export TRITONBACKEND_ModelInstanceModel
func TRITONBACKEND_ModelInstanceModel() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceModel")
}

//export TRITONBACKEND_ModelInstanceName
func TRITONBACKEND_ModelInstanceName() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceName")
}

//export TRITONBACKEND_ModelInstanceProfileCount
func TRITONBACKEND_ModelInstanceProfileCount() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceProfileCount")
}

//export TRITONBACKEND_ModelInstanceProfileName
func TRITONBACKEND_ModelInstanceProfileName() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceProfileName")
}

//export TRITONBACKEND_ModelInstanceReportBatchStatistics
func TRITONBACKEND_ModelInstanceReportBatchStatistics() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceReportBatchStatistics")
}

//export TRITONBACKEND_ModelInstanceReportMemoryUsage
func TRITONBACKEND_ModelInstanceReportMemoryUsage() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceReportMemoryUsage")
}

//export TRITONBACKEND_ModelInstanceReportResponseStatistics
func TRITONBACKEND_ModelInstanceReportResponseStatistics() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceReportResponseStatistics")
}

//export TRITONBACKEND_ModelInstanceReportStatistics
func TRITONBACKEND_ModelInstanceReportStatistics() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceReportStatistics")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsDelete
func TRITONBACKEND_ModelInstanceResponseStatisticsDelete() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsDelete")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsNew
func TRITONBACKEND_ModelInstanceResponseStatisticsNew() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsNew")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetError
func TRITONBACKEND_ModelInstanceResponseStatisticsSetError() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetError")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance
func TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory")
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart")
}

//export TRITONBACKEND_ModelInstanceSecondaryDeviceCount
func TRITONBACKEND_ModelInstanceSecondaryDeviceCount() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceSecondaryDeviceCount")
}

//export TRITONBACKEND_ModelInstanceSecondaryDeviceProperties
func TRITONBACKEND_ModelInstanceSecondaryDeviceProperties() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceSecondaryDeviceProperties")
}

//export TRITONBACKEND_ModelInstanceSetState
func TRITONBACKEND_ModelInstanceSetState() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceSetState")
}

//export TRITONBACKEND_ModelInstanceState
func TRITONBACKEND_ModelInstanceState() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelInstanceState")
}

//export TRITONBACKEND_ModelName
func TRITONBACKEND_ModelName() C.uintptr_t { return unsupported("TRITONBACKEND_ModelName") }

//export TRITONBACKEND_ModelReportMemoryUsage
func TRITONBACKEND_ModelReportMemoryUsage() C.uintptr_t {
	return unsupported("TRITONBACKEND_ModelReportMemoryUsage")
}

//export TRITONBACKEND_ModelRepository
func TRITONBACKEND_ModelRepository() C.uintptr_t { return unsupported("TRITONBACKEND_ModelRepository") }

//export TRITONBACKEND_ModelServer
func TRITONBACKEND_ModelServer() C.uintptr_t { return unsupported("TRITONBACKEND_ModelServer") }

//export TRITONBACKEND_ModelSetConfig
func TRITONBACKEND_ModelSetConfig() C.uintptr_t { return unsupported("TRITONBACKEND_ModelSetConfig") }

//export TRITONBACKEND_ModelSetState
func TRITONBACKEND_ModelSetState() C.uintptr_t { return unsupported("TRITONBACKEND_ModelSetState") }

//export TRITONBACKEND_ModelState
func TRITONBACKEND_ModelState() C.uintptr_t { return unsupported("TRITONBACKEND_ModelState") }

//export TRITONBACKEND_ModelVersion
func TRITONBACKEND_ModelVersion() C.uintptr_t { return unsupported("TRITONBACKEND_ModelVersion") }

//export TRITONBACKEND_OutputBuffer
func TRITONBACKEND_OutputBuffer() C.uintptr_t { return unsupported("TRITONBACKEND_OutputBuffer") }

//export TRITONBACKEND_OutputBufferAttributes
func TRITONBACKEND_OutputBufferAttributes() C.uintptr_t {
	return unsupported("TRITONBACKEND_OutputBufferAttributes")
}

//export TRITONBACKEND_RequestCorrelationId
func TRITONBACKEND_RequestCorrelationId() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestCorrelationId")
}

//export TRITONBACKEND_RequestCorrelationIdString
func TRITONBACKEND_RequestCorrelationIdString() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestCorrelationIdString")
}

//export TRITONBACKEND_RequestFlags
func TRITONBACKEND_RequestFlags() C.uintptr_t { return unsupported("TRITONBACKEND_RequestFlags") }

//export TRITONBACKEND_RequestId
func TRITONBACKEND_RequestId() C.uintptr_t { return unsupported("TRITONBACKEND_RequestId") }

//export TRITONBACKEND_RequestInput
func TRITONBACKEND_RequestInput() C.uintptr_t { return unsupported("TRITONBACKEND_RequestInput") }

//export TRITONBACKEND_RequestInputByIndex
func TRITONBACKEND_RequestInputByIndex() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestInputByIndex")
}

//export TRITONBACKEND_RequestInputCount
func TRITONBACKEND_RequestInputCount() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestInputCount")
}

//export TRITONBACKEND_RequestInputName
func TRITONBACKEND_RequestInputName() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestInputName")
}

//export TRITONBACKEND_RequestIsCancelled
func TRITONBACKEND_RequestIsCancelled() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestIsCancelled")
}

//export TRITONBACKEND_RequestOutputBufferProperties
func TRITONBACKEND_RequestOutputBufferProperties() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestOutputBufferProperties")
}

//export TRITONBACKEND_RequestOutputCount
func TRITONBACKEND_RequestOutputCount() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestOutputCount")
}

//export TRITONBACKEND_RequestOutputName
func TRITONBACKEND_RequestOutputName() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestOutputName")
}

//export TRITONBACKEND_RequestParameter
func TRITONBACKEND_RequestParameter() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestParameter")
}

//export TRITONBACKEND_RequestParameterCount
func TRITONBACKEND_RequestParameterCount() C.uintptr_t {
	return unsupported("TRITONBACKEND_RequestParameterCount")
}

//export TRITONBACKEND_RequestRelease
func TRITONBACKEND_RequestRelease() C.uintptr_t { return unsupported("TRITONBACKEND_RequestRelease") }

//export TRITONBACKEND_RequestTrace
func TRITONBACKEND_RequestTrace() C.uintptr_t { return unsupported("TRITONBACKEND_RequestTrace") }

//export TRITONBACKEND_ResponseDelete
func TRITONBACKEND_ResponseDelete() C.uintptr_t { return unsupported("TRITONBACKEND_ResponseDelete") }

//export TRITONBACKEND_ResponseFactoryDelete
func TRITONBACKEND_ResponseFactoryDelete() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseFactoryDelete")
}

//export TRITONBACKEND_ResponseFactoryIsCancelled
func TRITONBACKEND_ResponseFactoryIsCancelled() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseFactoryIsCancelled")
}

//export TRITONBACKEND_ResponseFactoryNew
func TRITONBACKEND_ResponseFactoryNew() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseFactoryNew")
}

//export TRITONBACKEND_ResponseFactorySendFlags
func TRITONBACKEND_ResponseFactorySendFlags() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseFactorySendFlags")
}

//export TRITONBACKEND_ResponseNew
func TRITONBACKEND_ResponseNew() C.uintptr_t { return unsupported("TRITONBACKEND_ResponseNew") }

//export TRITONBACKEND_ResponseNewFromFactory
func TRITONBACKEND_ResponseNewFromFactory() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseNewFromFactory")
}

//export TRITONBACKEND_ResponseOutput
func TRITONBACKEND_ResponseOutput() C.uintptr_t { return unsupported("TRITONBACKEND_ResponseOutput") }

//export TRITONBACKEND_ResponseSend
func TRITONBACKEND_ResponseSend() C.uintptr_t { return unsupported("TRITONBACKEND_ResponseSend") }

//export TRITONBACKEND_ResponseSetBoolParameter
func TRITONBACKEND_ResponseSetBoolParameter() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseSetBoolParameter")
}

//export TRITONBACKEND_ResponseSetDoubleParameter
func TRITONBACKEND_ResponseSetDoubleParameter() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseSetDoubleParameter")
}

//export TRITONBACKEND_ResponseSetIntParameter
func TRITONBACKEND_ResponseSetIntParameter() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseSetIntParameter")
}

//export TRITONBACKEND_ResponseSetStringParameter
func TRITONBACKEND_ResponseSetStringParameter() C.uintptr_t {
	return unsupported("TRITONBACKEND_ResponseSetStringParameter")
}

//export TRITONBACKEND_StateBuffer
func TRITONBACKEND_StateBuffer() C.uintptr_t { return unsupported("TRITONBACKEND_StateBuffer") }

//export TRITONBACKEND_StateBufferAttributes
func TRITONBACKEND_StateBufferAttributes() C.uintptr_t {
	return unsupported("TRITONBACKEND_StateBufferAttributes")
}

//export TRITONBACKEND_StateNew
func TRITONBACKEND_StateNew() C.uintptr_t { return unsupported("TRITONBACKEND_StateNew") }

//export TRITONBACKEND_StateUpdate
func TRITONBACKEND_StateUpdate() C.uintptr_t { return unsupported("TRITONBACKEND_StateUpdate") }
