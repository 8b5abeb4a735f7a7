package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/kserve"
)

const (
	sagemakerMIME = "application/vnd.sagemaker-triton.binary+json"
	// sagemakerTarget names the model that an invocation means, when it is not the
	// one of its path.
	sagemakerTarget = "X-Amzn-SageMaker-Target-Model"
	// sagemakerUnload is how long the cloud waits for an unload.
	sagemakerUnload = 350 * time.Second
	// noSagemakerModel is the model that invocations mean when none is named.
	noSagemakerModel = "unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
)

// SagemakerOptions configure the form that Amazon SageMaker's containers have.
// The environment is the cloud's way to set them.
type SagemakerOptions struct {
	// Model answers /invocations (SAGEMAKER_TRITON_DEFAULT_MODEL_NAME).
	Model string
	// LivePing makes /ping tell of liveness rather than readiness
	// (SAGEMAKER_TRITON_PING_MODE=live).
	LivePing bool
	// InferenceType is "infer", "generate" or "generate_stream"; default "infer"
	// (SAGEMAKER_TRITON_INFERENCE_TYPE).
	InferenceType string
	// Root is where the cloud puts models; default /opt/ml/models.
	Root string
}

// Sagemaker is the front end in the cloud's form: /ping, /invocations, and
// /models for many models in one container.
type Sagemaker struct {
	s *Server
	o SagemakerOptions
	// endpoint is what the inference type means.
	endpoint endpoint

	mu sync.Mutex
	// loaded are the models that the cloud has put here, by its name for them.
	loaded map[string]sagemakerModel
}

type sagemakerModel struct{ url, repository string }

// NewSagemaker returns the cloud's form of s.
func NewSagemaker(s *Server, o SagemakerOptions) (*Sagemaker, error) {
	setDefault(&o.Model, noSagemakerModel)
	setDefault(&o.Root, "/opt/ml/models")
	m := &Sagemaker{s: s, o: o, loaded: map[string]sagemakerModel{}}
	switch o.InferenceType {
	case "", "infer":
		m.endpoint = modelInfer
	case "generate":
		m.endpoint = modelGenerate
	case "generate_stream":
		m.endpoint = modelGenerateStream
	default:
		return nil, backend.Errorf(backend.InvalidArg, "SAGEMAKER_TRITON_INFERENCE_TYPE is '%s': expected infer, generate or generate_stream", o.InferenceType)
	}
	return m, nil
}

// ServeHTTP answers one request.
func (m *Sagemaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Date"] = m.s.clock.date()
	switch path := r.URL.EscapedPath(); {
	case path == "/ping":
		if m.method(w, r, http.MethodGet) {
			m.ping(w, r)
		}
	case path == "/invocations":
		if m.method(w, r, http.MethodPost) {
			m.infer(w, r, m.o.Model, false)
		}
	case path == "/models" && r.Method == http.MethodGet:
		if caller, ok := m.s.authorize(w, r, target{endpoint: repositoryIndex}); ok {
			m.list(w, caller)
		}
	case path == "/models" && r.Method == http.MethodPost:
		if caller, ok := m.s.authorize(w, r, target{endpoint: repositoryLoad}); ok {
			m.load(w, r, caller)
		}
	case strings.HasPrefix(path, "/models/"):
		m.model(w, r, path[len("/models/"):])
	default:
		m.s.drain(w, r)
		replyEmpty(w, http.StatusBadRequest)
	}
}

func (m *Sagemaker) method(w http.ResponseWriter, r *http.Request, want string) bool {
	if r.Method == want {
		return true
	}
	m.s.drain(w, r)
	replyText(w, w.Header(), http.StatusMethodNotAllowed, "Method Not Allowed")
	return false
}

func (m *Sagemaker) ping(w http.ResponseWriter, r *http.Request) {
	t := target{endpoint: serverReady}
	if m.o.LivePing {
		t.endpoint = serverLive
	}
	m.s.serve(w, r, t)
}

// model answers what is asked of one model.
func (m *Sagemaker) model(w http.ResponseWriter, r *http.Request, rest string) {
	name, after := segment(rest)
	if after != "/invoke" { // else serve looks, once the model is known
		t := target{endpoint: modelMetadata, name: name}
		if r.Method == http.MethodDelete {
			t.endpoint = repositoryUnload
		}
		if _, ok := m.s.authorize(w, r, t); !ok {
			return
		}
	}
	m.mu.Lock()
	found, ok := m.loaded[name]
	m.mu.Unlock()
	switch {
	case !ok:
		m.s.drain(w, r)
		replyEmpty(w, http.StatusNotFound)
	case after == "/invoke" && r.Method == http.MethodPost:
		if named := r.Header.Get(sagemakerTarget); named != "" {
			name = named
		}
		m.infer(w, r, name, true)
	case after == "" && r.Method == http.MethodGet:
		reply, _ := json.Marshal(sagemakerEntry{name, found.url}) // two strings
		m.answer(w, http.StatusOK, reply)
	case after == "" && r.Method == http.MethodDelete:
		m.unload(w, r, name, found)
	default:
		m.s.drain(w, r)
		replyEmpty(w, http.StatusBadRequest)
	}
}

// infer answers an invocation. Compression is not part of this form.
func (m *Sagemaker) infer(w http.ResponseWriter, r *http.Request, name string, flatten bool) {
	r.Header.Del("Content-Encoding")
	r.Header.Del("Accept-Encoding")
	w = &translator{ResponseWriter: w, mime: sagemakerMIME, flatten: flatten}
	if err := takeHeaderSize(r, sagemakerMIME); err != nil {
		m.s.drain(w, r)
		replyError(w, w.Header(), jsonType, backend.AsError(err))
		return
	}
	m.s.serve(w, r, target{endpoint: m.endpoint, name: name})
}

type sagemakerEntry struct {
	Name string `json:"modelName"`
	URL  string `json:"modelUrl"`
}

func (m *Sagemaker) list(w http.ResponseWriter, caller *auth.Caller) {
	m.mu.Lock()
	names := slices.Sorted(maps.Keys(m.loaded))
	all := struct {
		Models []sagemakerEntry `json:"models"`
	}{Models: []sagemakerEntry{}}
	for _, name := range names {
		if !caller.Sees(name) {
			continue
		}
		all.Models = append(all.Models, sagemakerEntry{name, m.loaded[name].url})
	}
	m.mu.Unlock()
	reply, _ := json.Marshal(all) // strings only
	m.answer(w, http.StatusOK, reply)
}

func (m *Sagemaker) answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = textType // as the peer says, though it is JSON
	write(w, h, status, body)
}

// fail answers with an error in the cloud's codes.
func (m *Sagemaker) fail(w http.ResponseWriter, err error) {
	fault := backend.AsError(err)
	status := flatStatus(fault.Message)
	switch fault.Code { //nolint:exhaustive // the others have no code of their own
	case backend.AlreadyExists:
		status = http.StatusConflict
	case backend.PermissionDenied:
		status = http.StatusForbidden
	}
	h := w.Header()
	h["Content-Type"] = textType
	write(w, h, status, kserve.AppendError(nil, fault.Message))
}

func (m *Sagemaker) load(w http.ResponseWriter, r *http.Request, caller *auth.Caller) {
	body, err := m.s.controlBody(w, r)
	if err == nil {
		var q struct {
			Name string `json:"model_name"`
			URL  string `json:"url"`
		}
		if fault := json.Unmarshal(body, &q); fault != nil {
			err = backend.Errorf(backend.InvalidArg, "failed to parse the request JSON buffer: %v; expected {\"model_name\": ..., \"url\": ...}", fault)
		} else if refusal := caller.May(auth.Control, q.Name); refusal != nil {
			err = refusal
		} else {
			err = m.register(r.Context(), q.Name, q.URL)
		}
	}
	if err != nil {
		m.fail(w, err)
		return
	}
	replyEmpty(w, http.StatusOK)
}

// register makes the directory at url a repository and loads its model under
// the cloud's name.
func (m *Sagemaker) register(ctx context.Context, name, url string) error {
	if !filepath.IsLocal(name) || strings.ContainsAny(name, "/\\\x00") {
		return backend.Errorf(backend.InvalidArg, "invalid model_name '%s'", name)
	}
	path := filepath.Clean(url)
	below, ok := strings.CutPrefix(path, filepath.Clean(m.o.Root)+string(filepath.Separator))
	if parts := strings.Split(filepath.ToSlash(below), "/"); !ok || len(parts) < 2 || len(parts) > 3 || parts[1] != "model" {
		return backend.Errorf(backend.InvalidArg, "invalid url '%s': expected %s/<name>/model[/<directory>]", url, m.o.Root)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && !within(real, m.o.Root) {
		return backend.Errorf(backend.InvalidArg, "invalid url '%s': it leads out of %s", url, m.o.Root)
	}
	repository, directory, err := choose(path)
	if err != nil {
		return err
	}
	engine := m.s.engine
	if err := engine.Register(repository, directory, name); err != nil {
		return err
	}
	if err := engine.Load(ctx, name, "", nil); err != nil {
		// The failed load says more than what follows: nothing of it must stay, or the
		// server would not be ready, and the cloud would end it.
		_ = engine.Unload(ctx, name, true)
		_ = engine.Unregister(repository)
		return err
	}
	m.mu.Lock()
	m.loaded[name] = sagemakerModel{url: url, repository: repository}
	m.mu.Unlock()
	return nil
}

func within(path, root string) bool {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// choose finds the model in what the cloud unpacked at path: path itself, its
// only sub-directory, or that of the ensemble among several.
func choose(path string) (repository, directory string, err error) {
	if isModel(path) {
		return filepath.Dir(path), filepath.Base(path), nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", "", backend.Errorf(backend.NotFound, "failed to register '%s', repository not found", path)
	}
	var found []string
	for _, e := range entries {
		dir := filepath.Join(path, e.Name())
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found = append(found, e.Name())
		if text, err := os.ReadFile(filepath.Join(dir, "config.pbtxt")); err == nil && isEnsemble(string(text)) {
			return path, e.Name(), nil
		}
	}
	if len(found) == 0 {
		return "", "", backend.Errorf(backend.NotFound, "failed to register '%s', it holds no model", path)
	}
	return path, found[0], nil
}

// isModel reports whether path is a model's directory: one with a configuration
// or a version.
func isModel(path string) bool {
	if _, err := os.Stat(filepath.Join(path, "config.pbtxt")); err == nil {
		return true
	}
	info, err := os.Stat(filepath.Join(path, "1"))
	return err == nil && info.IsDir()
}

// isEnsemble looks for the platform as the peer does.
func isEnsemble(config string) bool {
	for line := range strings.Lines(config) {
		if rest, ok := strings.CutPrefix(strings.Join(strings.Fields(line), ""), "platform:"); ok && strings.Trim(rest, `"',;`) == "ensemble" {
			return true
		}
	}
	return false
}

func (m *Sagemaker) unload(w http.ResponseWriter, r *http.Request, name string, found sagemakerModel) {
	ctx, cancel := context.WithTimeout(r.Context(), sagemakerUnload)
	defer cancel()
	err := m.s.engine.UnloadWait(ctx, name)
	if err == nil {
		err = m.s.engine.Unregister(found.repository)
	}
	if err != nil {
		m.fail(w, err)
		return
	}
	m.mu.Lock()
	delete(m.loaded, name)
	m.mu.Unlock()
	replyEmpty(w, http.StatusOK)
}
