package genai

import (
	"runtime"
	"strings"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// api has the functions of one library. Those of the engine, and of what else is recent, may be
// missing: releases before 0.17 have another one.
type api struct {
	lib       *library.Library
	functions [fnCount]library.Function
	// Functions with numbers that are no integers.
	setSearchNumber func(params uintptr, name *byte, value float64) uintptr
	setTurnFloat    [3]func(options uintptr, value float32) uintptr // fnTurnTemperature, ...
	hasEngine       bool
}

// The functions in use, by their place in names.
const (
	fnResultGetError = iota
	fnDestroyResult
	fnDestroyString
	fnShutdown
	fnCreateConfig
	fnDestroyConfig
	fnConfigOverlay
	fnCreateModelFromConfig
	fnDestroyModel
	fnModelGetType
	fnCreateTokenizer
	fnDestroyTokenizer
	fnTokenizerEncode
	fnTokenizerDecode
	fnApplyChatTemplate
	fnCreateTokenizerStream
	fnDestroyTokenizerStream
	fnTokenizerStreamDecode
	fnCreateSequences
	fnDestroySequences
	fnSequenceCount
	fnSequenceData
	fnCreateGeneratorParams
	fnDestroyGeneratorParams
	fnSetSearchNumber
	fnSetSearchBool
	fnSetGuidance
	fnCreateGenerator
	fnDestroyGenerator
	fnIsDone
	fnAppendTokens
	fnGenerateNextToken
	fnGetNextTokens
	fnGetLogits
	fnGetInput
	fnGeneratorSequenceCount
	fnGeneratorSequenceData
	fnDestroyTensor
	fnTensorGetType
	fnTensorShapeRank
	fnTensorGetShape
	fnTensorGetData
	fnCreateAdapters
	fnDestroyAdapters
	fnLoadAdapter
	fnSetActiveAdapter
	fnNeeded // what every library has ends here
)

// Those of the engine, and two others of later releases.
const (
	fnCreateEngine = iota + fnNeeded
	fnDestroyEngine
	fnEngineCreateRequest
	fnEngineRun
	fnEngineHasPending
	fnCreateEventBuffer
	fnDestroyEventBuffer
	fnEventCount
	fnEventGet
	fnEventFlags
	fnEventRequest
	fnEventToken
	fnEventFinish
	fnEventError
	fnCreateTurnOptions
	fnDestroyTurnOptions
	fnTurnMaxTokens
	fnTurnMinTokens
	fnTurnSample
	fnTurnTopK
	fnTurnNoRepeat
	fnTurnSeed
	fnTurnGuidance
	fnBeginTurn
	fnCloseRequest
	fnDestroyRequest
	fnConfigAddModelData
	fnSetLogits
	fnTurnTemperature
	fnTurnTopP
	fnTurnRepetition
	fnCount
)

var names = [fnCount]string{
	fnResultGetError: "OgaResultGetError", fnDestroyResult: "OgaDestroyResult", fnDestroyString: "OgaDestroyString",
	fnShutdown: "OgaShutdown", fnCreateConfig: "OgaCreateConfig", fnDestroyConfig: "OgaDestroyConfig", fnConfigOverlay: "OgaConfigOverlay",
	fnCreateModelFromConfig: "OgaCreateModelFromConfig", fnDestroyModel: "OgaDestroyModel", fnModelGetType: "OgaModelGetType",
	fnCreateTokenizer: "OgaCreateTokenizer", fnDestroyTokenizer: "OgaDestroyTokenizer", fnTokenizerEncode: "OgaTokenizerEncode",
	fnTokenizerDecode: "OgaTokenizerDecode", fnApplyChatTemplate: "OgaTokenizerApplyChatTemplate",
	fnCreateTokenizerStream: "OgaCreateTokenizerStream", fnDestroyTokenizerStream: "OgaDestroyTokenizerStream",
	fnTokenizerStreamDecode: "OgaTokenizerStreamDecode", fnCreateSequences: "OgaCreateSequences", fnDestroySequences: "OgaDestroySequences",
	fnSequenceCount: "OgaSequencesGetSequenceCount", fnSequenceData: "OgaSequencesGetSequenceData",
	fnCreateGeneratorParams: "OgaCreateGeneratorParams", fnDestroyGeneratorParams: "OgaDestroyGeneratorParams",
	fnSetSearchNumber: "OgaGeneratorParamsSetSearchNumber", fnSetSearchBool: "OgaGeneratorParamsSetSearchBool",
	fnSetGuidance: "OgaGeneratorParamsSetGuidance", fnCreateGenerator: "OgaCreateGenerator", fnDestroyGenerator: "OgaDestroyGenerator",
	fnIsDone: "OgaGenerator_IsDone", fnAppendTokens: "OgaGenerator_AppendTokens", fnGenerateNextToken: "OgaGenerator_GenerateNextToken",
	fnGetNextTokens: "OgaGenerator_GetNextTokens", fnGetLogits: "OgaGenerator_GetLogits", fnGetInput: "OgaGenerator_GetInput",
	fnGeneratorSequenceCount: "OgaGenerator_GetSequenceCount", fnGeneratorSequenceData: "OgaGenerator_GetSequenceData",
	fnDestroyTensor: "OgaDestroyTensor", fnTensorGetType: "OgaTensorGetType", fnTensorShapeRank: "OgaTensorGetShapeRank",
	fnTensorGetShape: "OgaTensorGetShape", fnTensorGetData: "OgaTensorGetData", fnCreateAdapters: "OgaCreateAdapters",
	fnDestroyAdapters: "OgaDestroyAdapters", fnLoadAdapter: "OgaLoadAdapter", fnSetActiveAdapter: "OgaSetActiveAdapter",

	fnCreateEngine: "OgaCreateEngine", fnDestroyEngine: "OgaDestroyEngine", fnEngineCreateRequest: "OgaEngineCreateRequest",
	fnEngineRun: "OgaEngineRun", fnEngineHasPending: "OgaEngineHasPendingRequests", fnCreateEventBuffer: "OgaCreateEngineEventBuffer",
	fnDestroyEventBuffer: "OgaDestroyEngineEventBuffer", fnEventCount: "OgaEngineEventBufferGetCount", fnEventGet: "OgaEngineEventBufferGet",
	fnEventFlags: "OgaEngineEventGetFlags", fnEventRequest: "OgaEngineEventGetRequest", fnEventToken: "OgaEngineEventGetToken",
	fnEventFinish: "OgaEngineEventGetFinishReason", fnEventError: "OgaEngineEventGetErrorCode",
	fnCreateTurnOptions: "OgaRequestCreateTurnOptions", fnDestroyTurnOptions: "OgaDestroyTurnOptions",
	fnTurnMaxTokens: "OgaTurnOptionsSetMaxGeneratedTokens", fnTurnMinTokens: "OgaTurnOptionsSetMinGeneratedTokens",
	fnTurnSample: "OgaTurnOptionsSetDoSample", fnTurnTopK: "OgaTurnOptionsSetTopK", fnTurnNoRepeat: "OgaTurnOptionsSetNoRepeatNgramSize",
	fnTurnSeed: "OgaTurnOptionsSetSeed", fnTurnGuidance: "OgaTurnOptionsSetGuidance", fnBeginTurn: "OgaRequestBeginTurn",
	fnCloseRequest: "OgaRequestClose", fnDestroyRequest: "OgaDestroyRequest", fnTurnTemperature: "OgaTurnOptionsSetTemperature",
	fnConfigAddModelData: "OgaConfigAddModelData", fnSetLogits: "OgaGenerator_SetLogits",
	fnTurnTopP: "OgaTurnOptionsSetTopP", fnTurnRepetition: "OgaTurnOptionsSetRepetitionPenalty",
}

func openAPI(lib *library.Library) (*api, error) {
	a := &api{lib: lib, hasEngine: true}
	for i, name := range names {
		f, err := lib.Symbol(name)
		switch {
		case err == nil:
			a.functions[i] = f
		case i >= fnNeeded:
			a.hasEngine = false
		default:
			return nil, backend.Errorf(backend.Unavailable, "%v: it is no ONNX Runtime GenAI, or too old a one: "+
				"'pip install --upgrade %s'", err, Spec.Install)
		}
	}
	library.Bind(&a.setSearchNumber, a.functions[fnSetSearchNumber])
	if a.hasEngine {
		for i := range a.setTurnFloat {
			library.Bind(&a.setTurnFloat[i], a.functions[fnTurnTemperature+i])
		}
	}
	return a, nil
}

// call calls a function that returns a result, which is NULL where all went well.
//
//go:uintptrescapes
func (a *api) call(fn int, args ...uintptr) error {
	return a.failure(a.functions[fn].Call(args...))
}

// make calls a function whose last argument is where it puts what it makes.
//
//go:uintptrescapes
func (a *api) make(fn int, args ...uintptr) (uintptr, error) {
	out := new(uintptr)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(out)
	err := a.failure(a.functions[fn].Call(append(args, uintptr(unsafe.Pointer(out)))...))
	return *out, err
}

// plain calls a function that returns a value itself.
//
//go:uintptrescapes
func (a *api) plain(fn int, args ...uintptr) uintptr { return a.functions[fn].Call(args...) }

// free calls a function that frees an object; NULL is none.
func (a *api) free(fn int, object uintptr) {
	if object != 0 {
		a.functions[fn].Call(object)
	}
}

// libraryError is a text of the library's.
type libraryError struct{ text string }

func (e *libraryError) Error() string { return e.text }

// failure takes the text out of a result and frees it.
func (a *api) failure(result uintptr) error {
	if result == 0 {
		return nil
	}
	text := library.GoString(a.functions[fnResultGetError].Call(result))
	a.functions[fnDestroyResult].Call(result)
	if text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "); text == "" {
		text = "the library failed and does not say why"
	}
	const most = 2000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return &libraryError{text}
}

// text takes over a string that the library has made.
func (a *api) text(address uintptr) string {
	s := library.GoString(address)
	a.free(fnDestroyString, address)
	return s
}

// yes reads a C bool, of which only the lowest byte says something.
func yes(r uintptr) bool { return byte(r) != 0 }
