package httpapi

import (
	"strings"

	"github.com/nesoserve/neso/internal/openapi"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/shm"
)

// endpoint is what a path leads to.
type endpoint uint8

const (
	notFound endpoint = iota
	serverMetadata
	serverLive
	serverReady
	modelReady
	modelMetadata
	modelConfig
	modelStats
	modelExplain
	modelRollout
	modelInfer
	modelGenerate
	modelGenerateStream
	allStats
	logSettings
	traceSettings
	repositoryIndex
	repositoryLoad
	repositoryUnload
	repositoryBind
	memoryStatus
	memoryRegister
	memoryUnregister
	apiDescription
	apiViewer
	openAIModels
	openAIModel
	openAICompletions
	openAIChat
	openAIEmbeddings
	openAIResponses
	endpointCount
)

// Category groups endpoints for Options.Restricted, with the names of the
// option --http-restricted-api.
type Category string

// The categories.
const (
	Health          Category = "health"
	Metadata        Category = "metadata"
	Inference       Category = "inference"
	SharedMemory    Category = "shared-memory"
	ModelConfig     Category = "model-config"
	ModelRepository Category = "model-repository"
	Statistics      Category = "statistics"
	Trace           Category = "trace"
	Logging         Category = "logging"
)

// endpoints says how each endpoint may be called, and under which category.
var endpoints = [endpointCount]struct {
	get, post bool
	category  Category
}{
	serverMetadata:      {get: true, category: Metadata},
	serverLive:          {get: true, category: Health},
	serverReady:         {get: true, category: Health},
	modelReady:          {get: true, category: Health},
	modelMetadata:       {get: true, category: Metadata},
	modelConfig:         {get: true, category: ModelConfig},
	modelStats:          {get: true, category: Statistics},
	modelExplain:        {get: true, category: Statistics},
	modelRollout:        {get: true, post: true, category: ModelRepository},
	modelInfer:          {post: true, category: Inference},
	modelGenerate:       {post: true, category: Inference},
	modelGenerateStream: {post: true, category: Inference},
	allStats:            {get: true, category: Statistics},
	logSettings:         {get: true, post: true, category: Logging},
	traceSettings:       {get: true, post: true, category: Trace},
	repositoryIndex:     {post: true, category: ModelRepository},
	repositoryLoad:      {post: true, category: ModelRepository},
	repositoryUnload:    {post: true, category: ModelRepository},
	repositoryBind:      {post: true, category: ModelRepository},
	memoryStatus:        {get: true, category: SharedMemory},
	memoryRegister:      {post: true, category: SharedMemory},
	memoryUnregister:    {post: true, category: SharedMemory},
	apiDescription:      {get: true, category: Metadata},
	apiViewer:           {get: true},
	openAIModels:        {get: true, category: Metadata},
	openAIModel:         {get: true, category: Metadata},
	openAICompletions:   {post: true, category: Inference},
	openAIChat:          {post: true, category: Inference},
	openAIEmbeddings:    {post: true, category: Inference},
	openAIResponses:     {post: true, category: Inference},
}

// target is a routed path. Names are as they stand in the path, not decoded.
type target struct {
	endpoint   endpoint
	name       string // model, or region
	version    string // digits, or empty
	label      string // in place of a version, or empty
	repository string
	memory     shm.Kind
	// admin says that the request came to the listener of the administrators.
	admin bool
}

// route takes a path apart by hand: it runs for every request, and a trailing
// slash or an empty segment must not match.
func route(path string) target {
	rest, ok := strings.CutPrefix(path, "/v2")
	if !ok {
		return routeDescription(path)
	}
	if rest == "" {
		return target{endpoint: serverMetadata}
	}
	if rest[0] != '/' {
		return target{}
	}
	first, rest := segment(rest[1:])
	switch first {
	case "models":
		return routeModel(rest)
	case "health":
		switch rest {
		case "/live":
			return target{endpoint: serverLive}
		case "/ready":
			return target{endpoint: serverReady}
		}
	case "logging":
		if rest == "" {
			return target{endpoint: logSettings}
		}
	case "trace":
		if rest == "/setting" {
			return target{endpoint: traceSettings}
		}
	case "repository":
		return routeRepository(rest)
	case "systemsharedmemory":
		return routeMemory(shm.System, rest)
	case "cudasharedmemory":
		return routeMemory(shm.CUDA, rest)
	}
	return target{}
}

// routeDescription finds what describes the API, and is not part of it.
func routeDescription(path string) target {
	if path == "/openapi.json" {
		return target{endpoint: apiDescription}
	}
	if _, ok := openapi.Viewer(path); ok {
		return target{endpoint: apiViewer}
	}
	return target{}
}

// segment splits a path without its leading slash into the first segment and
// the rest, which is empty or begins with a slash.
func segment(path string) (first, rest string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// named takes a non-empty segment off a rest that begins with a slash.
func named(rest string) (name, after string, ok bool) {
	if rest == "" {
		return "", "", false
	}
	name, after = segment(rest[1:])
	return name, after, name != ""
}

func routeModel(rest string) target {
	name, rest, ok := named(rest)
	if !ok {
		return target{}
	}
	if name == "stats" && rest == "" {
		return target{endpoint: allStats}
	}
	t := target{name: name}
	if after, ok := strings.CutPrefix(rest, "/versions/"); ok {
		t.version, rest = segment(after)
		if !isNumber(t.version) {
			if !rollout.IsLabel(t.version) {
				return target{}
			}
			t.version, t.label = "", t.version
		}
	}
	switch rest {
	case "/infer":
		t.endpoint = modelInfer
	case "":
		t.endpoint = modelMetadata
	case "/ready":
		t.endpoint = modelReady
	case "/config":
		t.endpoint = modelConfig
	case "/stats":
		t.endpoint = modelStats
	case "/explain":
		t.endpoint = modelExplain
	case "/generate":
		t.endpoint = modelGenerate
	case "/generate_stream":
		t.endpoint = modelGenerateStream
	case "/trace/setting":
		if t.version == "" && t.label == "" {
			t.endpoint = traceSettings
		}
	}
	return t
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func routeRepository(rest string) target {
	if rest == "/index" {
		return target{endpoint: repositoryIndex}
	}
	if rest == "/bind" {
		return target{endpoint: repositoryBind}
	}
	t := target{}
	if !strings.HasPrefix(rest, "/models/") || !isControl(rest[len("/models/"):]) {
		var ok bool
		if t.repository, rest, ok = named(rest); !ok {
			return target{}
		}
		if rest == "/index" {
			t.endpoint = repositoryIndex
			return t
		}
	}
	after, ok := strings.CutPrefix(rest, "/models/")
	if !ok {
		return target{}
	}
	t.name, rest = segment(after)
	switch {
	case t.name == "":
	case rest == "/load":
		t.endpoint = repositoryLoad
	case rest == "/unload":
		t.endpoint = repositoryUnload
	case rest == "/rollout" && t.repository == "":
		t.endpoint = modelRollout
	}
	return t
}

// isControl reports whether rest is a model name followed by what can be done with one.
func isControl(rest string) bool {
	name, rest := segment(rest)
	return name != "" && (rest == "/load" || rest == "/unload" || rest == "/rollout")
}

func routeMemory(kind shm.Kind, rest string) target {
	t := target{memory: kind}
	if after, ok := strings.CutPrefix(rest, "/region/"); ok {
		if t.name, rest = segment(after); t.name == "" {
			return target{}
		}
	}
	switch rest {
	case "/status":
		t.endpoint = memoryStatus
	case "/register":
		t.endpoint = memoryRegister
	case "/unregister":
		t.endpoint = memoryUnregister
	}
	return t
}
