package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
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
	"github.com/nesoserve/neso/internal/httpapi/cloudform"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/repository/layout"
)

const (
	sagemakerMIME = "application/vnd.sagemaker-triton.binary+json"
	// sagemakerTarget is the name that a model is served under, where it is not the
	// cloud's own for it: the one in the path and in the body of a load.
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

// sagemakerModel is where a model came from, and the name it is served under.
type sagemakerModel struct{ repository, served string }

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
		return nil, backend.Errorf(backend.InvalidArg, "SAGEMAKER_TRITON_INFERENCE_TYPE is '%s': expected infer, generate or generate_stream",
			o.InferenceType)
	}
	return m, nil
}

// ServeHTTP answers one request.
func (m *Sagemaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Date"] = m.s.clock.date()
	switch path := r.URL.EscapedPath(); {
	case path == "/ping":
		if m.method(w, r, http.MethodGet, m.pings()) {
			m.s.serve(w, r, target{endpoint: m.pings()})
		}
	case path == "/invocations":
		if m.method(w, r, http.MethodPost, m.endpoint) {
			m.infer(w, r, m.o.Model, false)
		}
	case path == "/models" || path == "/models/":
		m.models(w, r)
	case strings.HasPrefix(path, "/models/"):
		m.model(w, r, path[len("/models/"):])
	default:
		m.s.drain(w, r)
		m.s.replyEmpty(w, http.StatusBadRequest)
	}
}

// method answers what comes with another method than want, after what e's
// category asks for.
func (m *Sagemaker) method(w http.ResponseWriter, r *http.Request, want string, e endpoint) bool {
	if r.Method == want {
		return true
	}
	if m.s.allowed(w, r, target{endpoint: e}) {
		m.s.drain(w, r)
		m.s.replyText(w, w.Header(), http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	return false
}

// pings is what /ping asks.
func (m *Sagemaker) pings() endpoint {
	if m.o.LivePing {
		return serverLive
	}
	return serverReady
}

// admit asks for what --http-restricted-api wants of who lists, loads and unloads
// models, and for a key; if one is missing it answers.
func (m *Sagemaker) admit(w http.ResponseWriter, r *http.Request, t target) (*auth.Caller, bool) {
	if !m.s.allowed(w, r, target{endpoint: repositoryIndex}) {
		return nil, false
	}
	return m.s.authorize(w, r, t)
}

// models answers what is asked of all models.
func (m *Sagemaker) models(w http.ResponseWriter, r *http.Request) {
	t, status := target{endpoint: repositoryIndex}, http.StatusBadRequest
	switch r.Method {
	case http.MethodPost:
		t.endpoint = repositoryLoad
	case http.MethodDelete: // of the model without a name, as the peer reads it
		t.endpoint, status = repositoryUnload, http.StatusNotFound
	}
	caller, ok := m.admit(w, r, t)
	switch {
	case !ok:
	case r.Method == http.MethodGet:
		m.list(w, caller)
	case r.Method == http.MethodPost:
		m.load(w, r, caller)
	default:
		m.s.drain(w, r)
		m.s.replyEmpty(w, status)
	}
}

// model answers what is asked of one model.
func (m *Sagemaker) model(w http.ResponseWriter, r *http.Request, rest string) {
	name, after := segment(rest)
	m.mu.Lock()
	found, ok := m.loaded[name]
	m.mu.Unlock()
	served := name
	if ok {
		served = found.served
	}
	if after != "/invoke" { // else serve looks, once the model is known
		t := target{endpoint: modelMetadata, name: served}
		if r.Method == http.MethodDelete {
			t.endpoint = repositoryUnload
		}
		if _, ok := m.admit(w, r, t); !ok {
			return
		}
	}
	switch {
	case !ok && asksSagemaker(r.Method, after):
		m.s.drain(w, r)
		m.s.replyEmpty(w, http.StatusNotFound)
	case after == "/invoke" && r.Method == http.MethodPost:
		if named := r.Header.Get(sagemakerTarget); named != "" {
			served = named
		}
		m.infer(w, r, served, true)
	case after == "" && r.Method == http.MethodGet:
		reply, _ := json.Marshal(sagemakerEntry{name, found.repository}) // two strings
		m.answer(w, http.StatusOK, reply)
	case after == "" && r.Method == http.MethodDelete:
		m.unload(w, r, name, found)
	default:
		m.s.drain(w, r)
		m.s.replyEmpty(w, http.StatusBadRequest)
	}
}

// asksSagemaker says whether there is such a request for a model. If not, it is not
// looked for.
func asksSagemaker(method, after string) bool {
	switch method {
	case http.MethodGet, http.MethodDelete:
		return after == "" || after == "/invoke"
	case http.MethodPost:
		return after == "/invoke"
	}
	return false
}

// infer answers an invocation. Compression is not part of this form.
func (m *Sagemaker) infer(w http.ResponseWriter, r *http.Request, name string, flatten bool) {
	r.Header.Del("Content-Encoding")
	r.Header.Del("Accept-Encoding")
	w = &cloudform.Translator{ResponseWriter: w, MIME: sagemakerMIME, Flatten: flatten}
	if err := cloudform.TakeHeaderSize(r, sagemakerMIME); err != nil {
		m.s.drain(w, r)
		m.s.replyError(w, w.Header(), jsonType, backend.AsError(err))
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
		if !caller.Sees(m.loaded[name].served) {
			continue
		}
		all.Models = append(all.Models, sagemakerEntry{name, m.loaded[name].repository})
	}
	m.mu.Unlock()
	reply, _ := json.Marshal(all) // strings only
	m.answer(w, http.StatusOK, reply)
}

func (m *Sagemaker) answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = textType // as the peer says, though it is JSON
	m.s.write(w, h, status, body)
}

// fail answers with an error in the cloud's codes.
func (m *Sagemaker) fail(w http.ResponseWriter, err error) {
	fault := backend.AsError(err)
	status := cloudform.FlatStatus(fault.Message)
	switch fault.Code { //nolint:exhaustive // the others have no code of their own
	case backend.AlreadyExists:
		status = http.StatusConflict
	case backend.PermissionDenied:
		status = http.StatusForbidden
	}
	h := w.Header()
	h["Content-Type"] = textType
	m.s.write(w, h, status, jsonwire.AppendError(nil, fault.Message))
}

func (m *Sagemaker) load(w http.ResponseWriter, r *http.Request, caller *auth.Caller) {
	c := m.s.inferences.Get().(*inference)
	defer m.s.release(c)
	body, err := m.s.controlBody(w, r, c)
	if err == nil {
		var q struct {
			Name string `json:"model_name"`
			URL  string `json:"url"`
		}
		if fault := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &q); fault != nil {
			err = backend.Errorf(backend.InvalidArg, "failed to parse the request JSON buffer: %v; expected {\"model_name\": ..., \"url\": ...}",
				fault)
		} else {
			served := cmp.Or(r.Header.Get(sagemakerTarget), q.Name)
			if refusal := caller.May(auth.Control, served); refusal != nil {
				auth.Note(m.s.engine.Refusals(), refusal, from(r)...)
				err = refusal
			} else {
				m.log("Loading", served)
				err = m.register(r.Context(), q.Name, served, q.URL)
			}
		}
	}
	if err != nil {
		m.fail(w, err)
		return
	}
	m.s.replyEmpty(w, http.StatusOK)
}

// log says which of the cloud's models is loaded and unloaded, in the peer's words:
// the cloud's users filter by them.
func (m *Sagemaker) log(doing, model string) {
	slog.New(m.s.handler()).Info(doing + " SageMaker TargetModel: " + model) //nolint:sloglint // worded as in Triton, which scripts look for
}

// register makes the directory at url, which the cloud calls name, a repository
// and loads its model as served.
func (m *Sagemaker) register(ctx context.Context, name, served, url string) error {
	for _, n := range []string{name, served} {
		if !filepath.IsLocal(n) || n == "." || strings.ContainsAny(n, "/\\\x00") {
			return backend.Errorf(backend.InvalidArg, "invalid model_name '%s'", n)
		}
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
	if err := engine.Register(repository, directory, served); err != nil {
		return err
	}
	if err := engine.Load(ctx, served, "", nil); err != nil {
		// The failed load says more than what follows: nothing of it must stay, or the
		// server would not be ready, and the cloud would end it. What serves under
		// that name was there before, and stays.
		if engine.ModelReady(served, -1) != nil {
			_ = engine.Unload(ctx, served, true)
		}
		_ = engine.Unregister(repository)
		return err
	}
	m.mu.Lock()
	m.loaded[name] = sagemakerModel{repository: repository, served: served}
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
		if !e.IsDir() || layout.NoModel(e.Name()) {
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
	m.log("Unloading", found.served)
	ctx, cancel := context.WithTimeout(r.Context(), sagemakerUnload)
	defer cancel()
	err := m.s.engine.UnloadWait(ctx, found.served)
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
	m.s.replyEmpty(w, http.StatusOK)
}
