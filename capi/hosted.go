//go:build cgo

package capi

import (
	"context"
	"encoding/json"
	"io"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/native"
)

// hosted is the server that has started neso-host, for a backend library in there.
type hosted struct{ up *native.Upstream }

// hostedServer returns the server of a handle of TRITONBACKEND_ModelServer.
func hostedServer(h handle.Handle) *server {
	up := native.ModelServer(h)
	if up == nil {
		return nil
	}
	return &server{serving: hosted{up}, handle: h, mode: "explicit", metrics: true}
}

// errElsewhere is the answer to what only the process that has the server may ask.
var errElsewhere = backend.Errorf(backend.Unsupported,
	"the server is that of another process, which has started this one: it is not for backends to stop or change")

func (s hosted) about(what backend.Subject, model string, version int64) ([]byte, error) {
	return s.up.Document(backend.Question{About: what, Model: model, Version: version})
}

func (s hosted) Live() error {
	_, err := s.about(backend.AboutLive, "", 0)
	return err
}

func (s hosted) Ready() error {
	_, err := s.about(backend.AboutReady, "", 0)
	return err
}

func (s hosted) Metadata() ([]byte, error) { return s.about(backend.AboutServer, "", 0) }

func (s hosted) ModelMetadata(name string, version int64) ([]byte, error) {
	return s.about(backend.AboutModel, name, version)
}

func (s hosted) ModelConfig(name string, version int64) ([]byte, error) {
	return s.about(backend.AboutConfig, name, version)
}

func (s hosted) Statistics(name string, version int64) ([]byte, error) {
	return s.about(backend.AboutStatistics, name, version)
}

func (s hosted) Index(ready bool) ([]byte, error) {
	if ready {
		return s.about(backend.AboutReadyIndex, "", 0)
	}
	return s.about(backend.AboutIndex, "", 0)
}

func (s hosted) Labels(model string, version int64, output string) (all []string) {
	text, err := s.up.Document(backend.Question{About: backend.AboutLabels, Model: model, Version: version, Output: output})
	if err == nil {
		_ = json.Unmarshal(text, &all) // the server's own
	}
	return all
}

func (s hosted) ModelReady(name string, version int64) error {
	ready, err := s.up.Ready(name, version)
	if err == nil && !ready {
		err = backend.Errorf(backend.InvalidArg, "model '%s' is not ready", name)
	}
	return err
}

func (s hosted) Serves(name string, version int64) error {
	_, err := s.up.Service(name, max(version, -1))
	return err
}

// Load and Unload return early where ctx is never over, as that of the C functions.
func (s hosted) Load(_ context.Context, name, config string, files map[string][]byte) error {
	return s.up.Load(name, config, files)
}

func (s hosted) Unload(_ context.Context, name string, dependents bool) error {
	return s.up.Unload(name, dependents)
}

func (hosted) WriteMetrics(io.Writer) error                       { return errElsewhere }
func (hosted) RegisterRepository(string, map[string]string) error { return errElsewhere }
func (hosted) UnregisterRepository(string) error                  { return errElsewhere }
func (hosted) Poll(context.Context) error                         { return errElsewhere }
func (hosted) Rollout(string) ([]byte, error)                     { return nil, errElsewhere }
func (hosted) SetRollout(context.Context, string, []byte) error   { return errElsewhere }

// Submit sends a request of the library to another model.
func (s hosted) Submit(ctx context.Context, q neso.Request, to neso.Receiver, follow neso.Follower) error {
	r := backend.Request{
		ID: q.ID, ModelName: q.Model, ModelVersion: q.Version, Correlation: q.Correlation, Flags: q.Flags, Priority: q.Priority,
		Timeout: q.Timeout, Parameters: q.Parameters, Inputs: q.Inputs, Requested: q.Outputs,
	}
	if r.ModelVersion <= 0 {
		r.ModelVersion = -1
	}
	if follow != nil {
		r.Trace = follow.Begin(q.Model, q.Version, q.ID, backend.Now())
		follow.Queue(backend.Now(), q.Inputs)
	}
	sent := make(chan struct{}) // the request is known before it is answered
	var stop func() bool
	var call *host.Call
	var known native.Service
	served := false // Pinned was called
	call, known, err := s.up.Infer(&r, func(resp *backend.Response, final bool) {
		<-sent
		if !served {
			served = true
			to.Pinned(s.up.Served(&r, known, call))
		}
		to.Respond(resp, final)
		if final {
			stop()
			if follow != nil {
				follow.End(neso.Moments{End: backend.Now()})
			}
			to.Released()
		}
	})
	if err != nil {
		return err
	}
	stop = context.AfterFunc(ctx, call.Cancel)
	close(sent)
	return nil
}

// hostedTrace returns the trace of a request that the server has sent to a library here.
func hostedTrace(h handle.Handle) *traced {
	n := native.TraceOf(h)
	if n == nil {
		return nil
	}
	t, _ := n.Object(func() (any, func()) {
		t := &traced{handle: h, level: levelTimestamps, id: n.ID(), context: n.Context(), propagated: n.Propagated(), note: n.Note}
		t.model, t.version, t.request = n.Names()
		t.taken.Store(true) // by the request: it is not a library's to end
		return t, t.free
	}).(*traced)
	return t // nil for one that has just ended
}
