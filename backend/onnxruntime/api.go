package onnxruntime

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// apiVersion is the oldest version of the C API that has every function below
// that is used without a look at the version: 16, of ONNX Runtime 1.16. Later
// libraries give the same table with more at its end.
const apiVersion = 16

// Locations in the table of functions. They never change: new ones are added at
// the end.
const (
	fnGetErrorCode                      = 1
	fnGetErrorMessage                   = 2
	fnCreateEnvWithCustomLogger         = 4
	fnDisableTelemetryEvents            = 6
	fnCreateSession                     = 7
	fnRun                               = 9
	fnCreateSessionOptions              = 10
	fnSetSessionExecutionMode           = 13
	fnEnableMemPattern                  = 16
	fnDisableMemPattern                 = 17
	fnEnableCPUMemArena                 = 18
	fnDisableCPUMemArena                = 19
	fnSetSessionLogID                   = 20
	fnSetSessionGraphOptimizationLevel  = 23
	fnSetIntraOpNumThreads              = 24
	fnSetInterOpNumThreads              = 25
	fnSessionGetInputCount              = 30 // and of outputs and overridable initializers: +1, +2
	fnSessionGetInputTypeInfo           = 33 // likewise
	fnSessionGetInputName               = 36 // likewise
	fnCreateRunOptions                  = 39
	fnRunOptionsSetTerminate            = 46
	fnRunOptionsUnsetTerminate          = 47
	fnCreateTensorAsOrtValue            = 48
	fnCreateTensorWithData              = 49
	fnGetTensorMutableData              = 51
	fnGetStringTensorDataLength         = 53
	fnGetStringTensorContent            = 54
	fnCastTypeInfoToTensorInfo          = 55
	fnGetOnnxTypeFromTypeInfo           = 56
	fnGetTensorElementType              = 60
	fnGetDimensionsCount                = 61
	fnGetDimensions                     = 62
	fnGetSymbolicDimensions             = 63
	fnGetTensorTypeAndShape             = 65
	fnCreateCPUMemoryInfo               = 69
	fnAllocatorFree                     = 76
	fnGetAllocatorWithDefaultOptions    = 78
	fnReleaseEnv                        = 92
	fnReleaseStatus                     = 93
	fnReleaseMemoryInfo                 = 94
	fnReleaseSession                    = 95
	fnReleaseValue                      = 96
	fnReleaseRunOptions                 = 97
	fnReleaseTypeInfo                   = 98
	fnReleaseTensorTypeAndShapeInfo     = 99
	fnReleaseSessionOptions             = 100
	fnDisablePerSessionThreads          = 120
	fnCreateThreadingOptions            = 121
	fnReleaseThreadingOptions           = 122
	fnGetAvailableProviders             = 125
	fnReleaseAvailableProviders         = 126
	fnAddSessionConfigEntry             = 130
	fnCreateAllocator                   = 131
	fnReleaseAllocator                  = 132
	fnSetGlobalIntraOpNumThreads        = 147
	fnSetGlobalInterOpNumThreads        = 148
	fnSetGlobalSpinControl              = 149
	fnCreateEnvWithLoggerAndThreadPools = 151
	fnAddRunConfigEntry                 = 165
	fnAppendTensorRT                    = 170
	fnCreateTensorRTOptions             = 171
	fnUpdateTensorRTOptions             = 172
	fnReleaseTensorRTOptions            = 174
	fnAppendCUDA                        = 204
	fnCreateCUDAOptions                 = 205
	fnUpdateCUDAOptions                 = 206
	fnReleaseCUDAOptions                = 208
	fnAppendExecutionProvider           = 216
	fnRegisterCustomOpsLibraryV2        = 228
	fnGetResizedStringElementBuffer     = 252
	fnCount                             = 256 // of every library of apiVersion
)

// Functions that later versions have, with their first version.
const (
	fnGetKeyValue          = 297
	fnReleaseKeyValuePairs = 300
	fnAllocatorGetStats    = 319
	allocatorStatsSince    = 23

	fnTensorHasShape = 390
	hasShapeSince    = 24
	fnTypeAndShape   = 414
	typeShapeSince   = 24
)

// api is the C API of one library.
type api struct {
	lib     *library.Library
	version string // for example "1.20.1"
	minor   int
	table   [fnCount]library.Function
	base    uintptr // of the whole table, for functions of later versions
	// allocator is the default one, memory describes ordinary memory.
	allocator, memory uintptr
}

// open resolves the functions of a library.
func openAPI(lib *library.Library) (*api, error) {
	getBase, err := lib.Symbol("OrtGetApiBase")
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "%v: it is not an ONNX Runtime library", err)
	}
	base := (*[2]library.Function)(library.Pointer(getBase.Call()))
	a := &api{lib: lib, version: library.GoString(base[1].Call())}
	table := base[0].Call(apiVersion)
	if table == 0 {
		return nil, backend.Errorf(backend.Unavailable,
			"the ONNX Runtime at '%s' is version %s, expected 1.%d or later: 'pip install --upgrade onnxruntime'", lib.Path, a.version, apiVersion)
	}
	a.minor = minorOf(a.version)
	a.table = *(*[fnCount]library.Function)(library.Pointer(table))
	a.base = table
	if err := a.call(fnGetAllocatorWithDefaultOptions, uintptr(unsafe.Pointer(&a.allocator))); err != nil {
		return nil, err
	}
	const arena, defaultMemory = 1, 0
	return a, a.call(fnCreateCPUMemoryInfo, arena, defaultMemory, uintptr(unsafe.Pointer(&a.memory)))
}

// minorOf returns 20 for "1.20.1"; 0 for what is not a version.
func minorOf(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(minor)
	return n
}

// later returns a function that libraries have from a version on, or 0.
func (a *api) later(fn, since int) library.Function {
	if a.minor < since {
		return 0
	}
	return *(*library.Function)(unsafe.Add(library.Pointer(a.base), uintptr(fn)*unsafe.Sizeof(uintptr(0))))
}

// call calls a function that returns a status.
//
//go:uintptrescapes
func (a *api) call(fn int, args ...uintptr) error {
	if status := a.table[fn].Call(args...); status != 0 {
		return a.failure(status)
	}
	return nil
}

// release calls a function that frees an object; NULL is none.
func (a *api) release(fn int, object uintptr) {
	if object != 0 {
		a.table[fn].Call(object)
	}
}

// runtimeError is an error of ONNX Runtime, in the words of Triton's backend.
type runtimeError struct {
	code    int
	message string
}

// Codes of ONNX Runtime that are told apart.
const (
	ortInvalidArgument = 2
	ortNoSuchFile      = 3
	ortRuntimeError    = 6
	ortInvalidProtobuf = 7
	ortNotImplemented  = 9
	ortInvalidGraph    = 10
)

func (e *runtimeError) Error() string {
	return fmt.Sprintf("onnx runtime error %d: %s", e.code, e.message)
}

// failure takes the error out of a status and frees it.
func (a *api) failure(status uintptr) error {
	e := &runtimeError{
		code:    int(int32(a.table[fnGetErrorCode].Call(status))),
		message: strings.TrimSpace(library.GoString(a.table[fnGetErrorMessage].Call(status))),
	}
	a.table[fnReleaseStatus].Call(status)
	return e
}
