//go:build cgo

package capi

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

//export TRITONSERVER_ApiVersion
func TRITONSERVER_ApiVersion() C.uintptr_t { return unsupported("TRITONSERVER_ApiVersion") }

//export TRITONSERVER_BufferAttributesByteSize
func TRITONSERVER_BufferAttributesByteSize() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesByteSize")
}

//export TRITONSERVER_BufferAttributesCudaIpcHandle
func TRITONSERVER_BufferAttributesCudaIpcHandle() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesCudaIpcHandle")
}

//export TRITONSERVER_BufferAttributesDelete
func TRITONSERVER_BufferAttributesDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesDelete")
}

//export TRITONSERVER_BufferAttributesMemoryType
func TRITONSERVER_BufferAttributesMemoryType() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesMemoryType")
}

//export TRITONSERVER_BufferAttributesMemoryTypeId
func TRITONSERVER_BufferAttributesMemoryTypeId() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesMemoryTypeId")
}

//export TRITONSERVER_BufferAttributesNew
func TRITONSERVER_BufferAttributesNew() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesNew")
}

//export TRITONSERVER_BufferAttributesSetByteSize
func TRITONSERVER_BufferAttributesSetByteSize() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesSetByteSize")
}

//export TRITONSERVER_BufferAttributesSetCudaIpcHandle
func TRITONSERVER_BufferAttributesSetCudaIpcHandle() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesSetCudaIpcHandle")
}

//export TRITONSERVER_BufferAttributesSetMemoryType
func TRITONSERVER_BufferAttributesSetMemoryType() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesSetMemoryType")
}

//export TRITONSERVER_BufferAttributesSetMemoryTypeId
func TRITONSERVER_BufferAttributesSetMemoryTypeId() C.uintptr_t {
	return unsupported("TRITONSERVER_BufferAttributesSetMemoryTypeId")
}

//export TRITONSERVER_DataTypeByteSize
func TRITONSERVER_DataTypeByteSize() C.uintptr_t { return unsupported("TRITONSERVER_DataTypeByteSize") }

//export TRITONSERVER_DataTypeString
func TRITONSERVER_DataTypeString() C.uintptr_t { return unsupported("TRITONSERVER_DataTypeString") }

//export TRITONSERVER_InferenceRequestAddInput
func TRITONSERVER_InferenceRequestAddInput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAddInput")
}

//export TRITONSERVER_InferenceRequestAddRawInput
func TRITONSERVER_InferenceRequestAddRawInput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAddRawInput")
}

//export TRITONSERVER_InferenceRequestAddRequestedOutput
func TRITONSERVER_InferenceRequestAddRequestedOutput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAddRequestedOutput")
}

//export TRITONSERVER_InferenceRequestAppendInputData
func TRITONSERVER_InferenceRequestAppendInputData() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAppendInputData")
}

//export TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes
func TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes")
}

//export TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy
func TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy")
}

//export TRITONSERVER_InferenceRequestCancel
func TRITONSERVER_InferenceRequestCancel() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestCancel")
}

//export TRITONSERVER_InferenceRequestCorrelationId
func TRITONSERVER_InferenceRequestCorrelationId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestCorrelationId")
}

//export TRITONSERVER_InferenceRequestCorrelationIdString
func TRITONSERVER_InferenceRequestCorrelationIdString() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestCorrelationIdString")
}

//export TRITONSERVER_InferenceRequestDelete
func TRITONSERVER_InferenceRequestDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestDelete")
}

//export TRITONSERVER_InferenceRequestFlags
func TRITONSERVER_InferenceRequestFlags() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestFlags")
}

//export TRITONSERVER_InferenceRequestId
func TRITONSERVER_InferenceRequestId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestId")
}

//export TRITONSERVER_InferenceRequestIsCancelled
func TRITONSERVER_InferenceRequestIsCancelled() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestIsCancelled")
}

//export TRITONSERVER_InferenceRequestNew
func TRITONSERVER_InferenceRequestNew() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestNew")
}

//export TRITONSERVER_InferenceRequestPriority
func TRITONSERVER_InferenceRequestPriority() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestPriority")
}

//export TRITONSERVER_InferenceRequestPriorityUInt64
func TRITONSERVER_InferenceRequestPriorityUInt64() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestPriorityUInt64")
}

//export TRITONSERVER_InferenceRequestRemoveAllInputData
func TRITONSERVER_InferenceRequestRemoveAllInputData() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestRemoveAllInputData")
}

//export TRITONSERVER_InferenceRequestRemoveAllInputs
func TRITONSERVER_InferenceRequestRemoveAllInputs() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestRemoveAllInputs")
}

//export TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs
func TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs")
}

//export TRITONSERVER_InferenceRequestRemoveInput
func TRITONSERVER_InferenceRequestRemoveInput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestRemoveInput")
}

//export TRITONSERVER_InferenceRequestRemoveRequestedOutput
func TRITONSERVER_InferenceRequestRemoveRequestedOutput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestRemoveRequestedOutput")
}

//export TRITONSERVER_InferenceRequestSetBoolParameter
func TRITONSERVER_InferenceRequestSetBoolParameter() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetBoolParameter")
}

//export TRITONSERVER_InferenceRequestSetCorrelationId
func TRITONSERVER_InferenceRequestSetCorrelationId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetCorrelationId")
}

//export TRITONSERVER_InferenceRequestSetCorrelationIdString
func TRITONSERVER_InferenceRequestSetCorrelationIdString() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetCorrelationIdString")
}

//export TRITONSERVER_InferenceRequestSetDoubleParameter
func TRITONSERVER_InferenceRequestSetDoubleParameter() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetDoubleParameter")
}

//export TRITONSERVER_InferenceRequestSetFlags
func TRITONSERVER_InferenceRequestSetFlags() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetFlags")
}

//export TRITONSERVER_InferenceRequestSetId
func TRITONSERVER_InferenceRequestSetId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetId")
}

//export TRITONSERVER_InferenceRequestSetIntParameter
func TRITONSERVER_InferenceRequestSetIntParameter() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetIntParameter")
}

//export TRITONSERVER_InferenceRequestSetPriority
func TRITONSERVER_InferenceRequestSetPriority() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetPriority")
}

//export TRITONSERVER_InferenceRequestSetPriorityUInt64
func TRITONSERVER_InferenceRequestSetPriorityUInt64() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetPriorityUInt64")
}

//export TRITONSERVER_InferenceRequestSetReleaseCallback
func TRITONSERVER_InferenceRequestSetReleaseCallback() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetReleaseCallback")
}

//export TRITONSERVER_InferenceRequestSetResponseCallback
func TRITONSERVER_InferenceRequestSetResponseCallback() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetResponseCallback")
}

//export TRITONSERVER_InferenceRequestSetStringParameter
func TRITONSERVER_InferenceRequestSetStringParameter() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetStringParameter")
}

//export TRITONSERVER_InferenceRequestSetTimeoutMicroseconds
func TRITONSERVER_InferenceRequestSetTimeoutMicroseconds() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestSetTimeoutMicroseconds")
}

//export TRITONSERVER_InferenceRequestTimeoutMicroseconds
func TRITONSERVER_InferenceRequestTimeoutMicroseconds() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceRequestTimeoutMicroseconds")
}

//export TRITONSERVER_InferenceResponseDelete
func TRITONSERVER_InferenceResponseDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseDelete")
}

//export TRITONSERVER_InferenceResponseError
func TRITONSERVER_InferenceResponseError() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseError")
}

//export TRITONSERVER_InferenceResponseId
func TRITONSERVER_InferenceResponseId() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseId")
}

//export TRITONSERVER_InferenceResponseModel
func TRITONSERVER_InferenceResponseModel() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseModel")
}

//export TRITONSERVER_InferenceResponseOutput
func TRITONSERVER_InferenceResponseOutput() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseOutput")
}

//export TRITONSERVER_InferenceResponseOutputClassificationLabel
func TRITONSERVER_InferenceResponseOutputClassificationLabel() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseOutputClassificationLabel")
}

//export TRITONSERVER_InferenceResponseOutputCount
func TRITONSERVER_InferenceResponseOutputCount() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseOutputCount")
}

//export TRITONSERVER_InferenceResponseParameter
func TRITONSERVER_InferenceResponseParameter() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseParameter")
}

//export TRITONSERVER_InferenceResponseParameterCount
func TRITONSERVER_InferenceResponseParameterCount() C.uintptr_t {
	return unsupported("TRITONSERVER_InferenceResponseParameterCount")
}

//export TRITONSERVER_InstanceGroupKindString
func TRITONSERVER_InstanceGroupKindString() C.uintptr_t {
	return unsupported("TRITONSERVER_InstanceGroupKindString")
}

//export TRITONSERVER_LogIsEnabled
func TRITONSERVER_LogIsEnabled() C.uintptr_t { return unsupported("TRITONSERVER_LogIsEnabled") }

//export TRITONSERVER_LogMessage
func TRITONSERVER_LogMessage() C.uintptr_t { return unsupported("TRITONSERVER_LogMessage") }

//export TRITONSERVER_MemoryTypeString
func TRITONSERVER_MemoryTypeString() C.uintptr_t { return unsupported("TRITONSERVER_MemoryTypeString") }

//export TRITONSERVER_MessageDelete
func TRITONSERVER_MessageDelete() C.uintptr_t { return unsupported("TRITONSERVER_MessageDelete") }

//export TRITONSERVER_MessageNewFromSerializedJson
func TRITONSERVER_MessageNewFromSerializedJson() C.uintptr_t {
	return unsupported("TRITONSERVER_MessageNewFromSerializedJson")
}

//export TRITONSERVER_MessageSerializeToJson
func TRITONSERVER_MessageSerializeToJson() C.uintptr_t {
	return unsupported("TRITONSERVER_MessageSerializeToJson")
}

//export TRITONSERVER_ParameterBytesNew
func TRITONSERVER_ParameterBytesNew() C.uintptr_t {
	return unsupported("TRITONSERVER_ParameterBytesNew")
}

//export TRITONSERVER_ParameterDelete
func TRITONSERVER_ParameterDelete() C.uintptr_t { return unsupported("TRITONSERVER_ParameterDelete") }

//export TRITONSERVER_ParameterNew
func TRITONSERVER_ParameterNew() C.uintptr_t { return unsupported("TRITONSERVER_ParameterNew") }

//export TRITONSERVER_ParameterTypeString
func TRITONSERVER_ParameterTypeString() C.uintptr_t {
	return unsupported("TRITONSERVER_ParameterTypeString")
}

//export TRITONSERVER_ResponseAllocatorDelete
func TRITONSERVER_ResponseAllocatorDelete() C.uintptr_t {
	return unsupported("TRITONSERVER_ResponseAllocatorDelete")
}

//export TRITONSERVER_ResponseAllocatorNew
func TRITONSERVER_ResponseAllocatorNew() C.uintptr_t {
	return unsupported("TRITONSERVER_ResponseAllocatorNew")
}

//export TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction
func TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction() C.uintptr_t {
	return unsupported("TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction")
}

//export TRITONSERVER_ResponseAllocatorSetQueryFunction
func TRITONSERVER_ResponseAllocatorSetQueryFunction() C.uintptr_t {
	return unsupported("TRITONSERVER_ResponseAllocatorSetQueryFunction")
}

//export TRITONSERVER_StringToDataType
func TRITONSERVER_StringToDataType() C.uintptr_t { return unsupported("TRITONSERVER_StringToDataType") }
