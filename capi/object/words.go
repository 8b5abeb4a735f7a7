//go:build cgo

package object

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/tensor"
)

// The last one of each list is for a number out of range.
var (
	datatypeWords = staticTexts("<invalid>", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32",
		"FP64", "BYTES", "BF16", "<invalid>")
	memoryWords    = staticTexts("CPU", "CPU_PINNED", "GPU", "<invalid>")
	parameterWords = staticTexts("STRING", "INT", "BOOL", "DOUBLE", "BYTES", "<invalid>")
	kindWords      = staticTexts("AUTO", "CPU", "GPU", "MODEL", "<invalid>")
	activityWords  = staticTexts("REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
		"REQUEST_END", "TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_INPUT", "TENSOR_BACKEND_OUTPUT", "CUSTOM_ACTIVITY", "<unknown>")
	levelWords = map[C.int]uintptr{
		0: NewText("DISABLED"), 1: NewText("MIN"), 2: NewText("MAX"), 4: NewText("TIMESTAMPS"), 8: NewText("TENSORS"),
	}
	unknownWord = NewText("<unknown>")
)

// The version of the interface.
const apiMajor, apiMinor = 1, 34

//export TRITONSERVER_ApiVersion
func TRITONSERVER_ApiVersion(major, minor C.uintptr_t) C.uintptr_t {
	Set(uintptr(major), C.uint32_t(apiMajor))
	Set(uintptr(minor), C.uint32_t(apiMinor))
	return 0
}

//export TRITONSERVER_DataTypeString
func TRITONSERVER_DataTypeString(datatype C.int) C.uintptr_t { return pick(datatypeWords, datatype) }

//export TRITONSERVER_StringToDataType
func TRITONSERVER_StringToDataType(word C.uintptr_t) C.int {
	name := String(uintptr(word))
	for _, d := range tensor.Datatypes() {
		if d.String() == name {
			return C.int(d) // the numbers are the same
		}
	}
	return 0
}

//export TRITONSERVER_DataTypeByteSize
func TRITONSERVER_DataTypeByteSize(datatype C.int) C.uint32_t {
	if datatype <= 0 || datatype > C.int(tensor.BF16) {
		return 0
	}
	return C.uint32_t(tensor.Datatype(datatype).Size())
}

//export TRITONSERVER_MemoryTypeString
func TRITONSERVER_MemoryTypeString(kind C.int) C.uintptr_t { return pick(memoryWords, kind) }

//export TRITONSERVER_ParameterTypeString
func TRITONSERVER_ParameterTypeString(kind C.int) C.uintptr_t { return pick(parameterWords, kind) }

//export TRITONSERVER_InstanceGroupKindString
func TRITONSERVER_InstanceGroupKindString(kind C.int) C.uintptr_t { return pick(kindWords, kind) }

//export TRITONSERVER_InferenceTraceActivityString
func TRITONSERVER_InferenceTraceActivityString(activity C.int) C.uintptr_t {
	return pick(activityWords, activity)
}

//export TRITONSERVER_InferenceTraceLevelString
func TRITONSERVER_InferenceTraceLevelString(level C.int) C.uintptr_t {
	if word, ok := levelWords[level]; ok {
		return C.uintptr_t(word)
	}
	return C.uintptr_t(unknownWord)
}
