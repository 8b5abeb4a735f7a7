package openvino

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// api is an open library: its functions by index, and how it numbers datatypes.
type api struct {
	path, version string
	functions     [fnCount]library.Function
	elements      [tensor.BF16 + 1]uintptr // 0: none
	// core reads and compiles the models. It is never freed: with its last core the
	// library closes libraries of its own whose threads may still be under way.
	core        uintptr
	compileWith library.Function // 0 in versions before 2026
	failing     chan struct{}    // full while a caller asks for a message
	turn        time.Duration    // how long another one waits for that; failWait
}

// Indices of the functions.
const (
	fnLastError = iota
	fnErrorInfo
	fnVersion
	fnVersionFree
	fnFree
	fnCoreCreate
	fnCoreFree
	fnCoreDevices
	fnDevicesFree
	fnCoreSetProperty
	fnAddExtension
	fnReadModel
	fnModelFree
	fnModelInputs
	fnModelOutputs
	fnModelInput
	fnModelOutput
	fnModelInputByName
	fnModelOutputByName
	fnReshape
	fnPortName
	fnPortShape
	fnPortElement
	fnPortFree
	fnPartialShapeFree
	fnCompile
	fnCompiledFree
	fnCreateRequest
	fnRequestFree
	fnSetInput
	fnGetOutput
	fnStart
	fnWaitFor
	fnWait
	fnCancel
	fnTensorFromHost
	fnTensorCreate
	fnTensorShape
	fnTensorElement
	fnTensorBytes
	fnTensorData
	fnTensorFree
	fnShapeFree
	fnCount
)

var symbols = [fnCount]string{
	fnLastError: "ov_get_last_err_msg", fnErrorInfo: "ov_get_error_info", fnVersion: "ov_get_openvino_version",
	fnVersionFree: "ov_version_free", fnFree: "ov_free",
	fnCoreCreate: "ov_core_create", fnCoreFree: "ov_core_free", fnCoreDevices: "ov_core_get_available_devices",
	fnDevicesFree:     "ov_available_devices_free",
	fnCoreSetProperty: "ov_core_set_property", fnAddExtension: "ov_core_add_extension",
	fnReadModel: "ov_core_read_model", fnModelFree: "ov_model_free", fnModelInputs: "ov_model_inputs_size",
	fnModelOutputs: "ov_model_outputs_size",
	fnModelInput:   "ov_model_const_input_by_index", fnModelOutput: "ov_model_const_output_by_index",
	fnModelInputByName: "ov_model_const_input_by_name", fnModelOutputByName: "ov_model_const_output_by_name",
	fnReshape:  "ov_model_reshape_by_port_indexes",
	fnPortName: "ov_port_get_any_name", fnPortShape: "ov_port_get_partial_shape", fnPortElement: "ov_port_get_element_type",
	fnPortFree:         "ov_output_const_port_free",
	fnPartialShapeFree: "ov_partial_shape_free", fnCompile: "ov_core_compile_model", fnCompiledFree: "ov_compiled_model_free",
	fnCreateRequest: "ov_compiled_model_create_infer_request", fnRequestFree: "ov_infer_request_free",
	fnSetInput: "ov_infer_request_set_input_tensor_by_index", fnGetOutput: "ov_infer_request_get_output_tensor_by_index",
	fnStart: "ov_infer_request_start_async", fnWaitFor: "ov_infer_request_wait_for", fnWait: "ov_infer_request_wait",
	fnCancel:         "ov_infer_request_cancel",
	fnTensorFromHost: "ov_tensor_create_from_host_ptr", fnTensorCreate: "ov_tensor_create", fnTensorShape: "ov_tensor_get_shape",
	fnTensorElement: "ov_tensor_get_element_type", fnTensorBytes: "ov_tensor_get_byte_size", fnTensorData: "ov_tensor_data",
	fnTensorFree: "ov_tensor_free",
	fnShapeFree:  "ov_shape_free",
}

// Status values of the library.
const (
	statusNotReady = -9
	statusInvalid  = -14
)

func openAPI(lib *library.Library) (*api, error) {
	a := &api{path: lib.Path, failing: make(chan struct{}, 1), turn: failWait}
	for i, name := range symbols {
		f, err := lib.Symbol(name)
		if err != nil {
			return nil, backend.Errorf(backend.Unavailable,
				"OpenVINO at %s has no function %s (found through %s): Neso needs 2024.4 or later: pip install -U openvino", lib.Path, name, lib.Source)
		}
		a.functions[i] = f
	}
	var err error
	if a.core, err = a.newCore(); err != nil {
		return nil, err
	}
	if f, err := lib.Symbol("ov_core_compile_model_props"); err == nil {
		a.compileWith = f
	}
	version := new([2]uintptr) // number and description
	if err := a.call(fnVersion, uintptr(unsafe.Pointer(version))); err != nil {
		return nil, err
	}
	a.version = library.GoString(version[0])
	a.functions[fnVersionFree].Call(uintptr(unsafe.Pointer(version)))
	if !a.numberElements() {
		return nil, backend.Errorf(backend.Unavailable,
			"OpenVINO %s at %s numbers its datatypes in a way that is not known: Neso needs 2024.4 or later", a.version, lib.Path)
	}
	return a, nil
}

// call calls a function that returns a status, and returns what the library
// says of a failure.
//
//go:uintptrescapes
func (a *api) call(index int, args ...uintptr) error {
	return a.invoke(a.functions[index], args...)
}

//go:uintptrescapes
func (a *api) invoke(f library.Function, args ...uintptr) error {
	begin := time.Now()
	status := int32(f.CallWith(args))
	if status == 0 {
		return nil
	}
	if time.Since(begin) > slowCall {
		return a.lastError(status)
	}
	// The library has one last message for all threads, so that it may be another
	// model's fault. What has failed fails again, one caller at a time, until it has
	// said the same twice: others fail once at most before they wait here. Calls that
	// succeed never do.
	turn := time.NewTimer(a.turn)
	defer turn.Stop()
	select {
	case a.failing <- struct{}{}:
		defer func() { <-a.failing }()
	case <-turn.C:
		return &libraryError{status: status, text: a.statusText(status) +
			"; what it says of it is not known, since too many calls fail at the same time"}
	}
	begin = time.Now()
	var err error
	for range failsAgain {
		status := int32(f.CallWith(args))
		if status == 0 {
			return nil
		}
		again := a.lastError(status)
		if err != nil && err.Error() == again.Error() {
			break
		}
		err = again
		if time.Since(begin) > failTime {
			break
		}
	}
	return err
}

// succeeds calls a function whose failure is an answer too. Nobody waits for a
// message.
//
//go:uintptrescapes
func (a *api) succeeds(index int, args ...uintptr) bool {
	return int32(a.functions[index].CallWith(args)) == 0
}

const (
	// failsAgain bounds how often a call that fails is made again.
	failsAgain = 8
	// slowCall is how long a call may take that is made again. What the library says
	// last is believed after a longer one: to compile a model twice only to be told
	// the same would keep the messages from all others.
	slowCall = 2 * time.Second
	// failTime is how long a caller may ask for a message that others overwrite, and
	// failWait how long it waits for its turn to ask.
	failTime = 5 * time.Second
	failWait = 30 * time.Second
)

// wait is a call that waits for a run. It leaves its thread to others meanwhile;
// the text of a failure is asked for by a second one.
func (a *api) wait(request, milliseconds uintptr) error {
	switch int32(a.functions[fnWaitFor].Call(request, milliseconds)) {
	case 0:
		return nil
	case statusNotReady:
		return errNotReady
	}
	return a.call(fnWaitFor, request, milliseconds)
}

// errNotReady says that a run goes on.
var errNotReady = &libraryError{status: statusNotReady, text: "the result is not ready"}

// libraryError is a text of the library's.
type libraryError struct {
	status int32
	text   string
}

func (e *libraryError) Error() string { return e.text }

func (a *api) lastError(status int32) error {
	text := ""
	if at := a.functions[fnLastError].Call(); at != 0 {
		text = tidy(library.GoString(at))
		a.functions[fnFree].Call(at)
	}
	if text == "" {
		text = a.statusText(status)
	}
	return &libraryError{status: status, text: text}
}

func (a *api) statusText(status int32) string {
	return fmt.Sprintf("OpenVINO fails with status %d (%s)", status, library.GoString(a.functions[fnErrorInfo].Call(uintptr(status))))
}

// tidy takes the places in the library's source out of a text.
func tidy(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "Exception from ") || strings.HasPrefix(line, "Check '") && strings.HasSuffix(line, ":") {
			continue
		}
		kept = append(kept, line)
	}
	text = strings.Join(kept, " ")
	if len(text) > 2000 {
		text = text[:2000] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// free calls a function that takes an object back.
func (a *api) free(index int, object uintptr) {
	if object != 0 {
		a.functions[index].Call(object)
	}
}

// Where the datatypes stand in the library's list, from BOOLEAN on. Older
// versions have one more in front.
var elementNumbers = map[tensor.Datatype]uintptr{
	tensor.Bool: 1, tensor.BF16: 2, tensor.FP16: 3, tensor.FP32: 4, tensor.FP64: 5, tensor.Int8: 7, tensor.Int16: 8, tensor.Int32: 9,
	tensor.Int64: 10,
	tensor.Uint8: 16, tensor.Uint16: 17, tensor.Uint32: 18, tensor.Uint64: 19,
}

// numberElements finds out how the library numbers datatypes, by the sizes of
// tensors: the numbers have changed, and no function tells them.
func (a *api) numberElements() bool {
	for shift := range uintptr(2) {
		fits := true
		for d, at := range elementNumbers {
			fits = fits && a.elementSize(at+shift) == d.Size()
		}
		if fits {
			for d, at := range elementNumbers {
				a.elements[d] = at + shift
			}
			return true
		}
	}
	return false
}

// elementSize is how many bytes a tensor with one element has; 0 when the
// library makes none.
func (a *api) elementSize(element uintptr) int {
	value, err := a.make(fnTensorCreate, element, []int64{1}, nil)
	if err != nil {
		return 0
	}
	size := new(uintptr)
	defer a.free(fnTensorFree, value)
	if !a.succeeds(fnTensorBytes, value, uintptr(unsafe.Pointer(size))) {
		return 0
	}
	return int(*size)
}

// datatypeOf is the protocol's datatype of the library's, or Invalid.
func (a *api) datatypeOf(element int32) tensor.Datatype {
	for d, e := range a.elements {
		if e != 0 && e == uintptr(element) {
			return tensor.Datatype(d)
		}
	}
	return tensor.Invalid
}
