package engine

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/rollout"
)

// Version returns the number of the version that a client asks for, -1 where it asks for
// none. What has no request in flight may do with a number: of two questions each sees
// the label where it stands.
func (e *Engine) Version(name string, ask rollout.Ask) (int64, error) {
	if ask.Label == "" || ask.Chosen {
		return ask.Version, nil
	}
	if v, ok := e.life.Labelled(name, ask.Label); ok {
		return v, nil
	}
	if e.comes(name) {
		return 0, backend.Errorf(backend.Unavailable, "model '%s' is not loaded: which version has the label '%s' is known once it is", name,
			ask.Label)
	}
	return 0, e.life.ExplainLabel(name, ask.Label)
}

// Labelled reports whether versions of a model may have labels: where nobody has given
// any, clients are told what they were told before there were labels. What a model has
// that is loaded on demand is known once it is.
func (e *Engine) Labelled(name string) bool { return e.life.HasRules(name) || e.comes(name) }

// comes reports whether a model that is not in would be loaded for a request.
func (e *Engine) comes(name string) bool {
	return e.demand != nil && !e.life.ServesNow(name) && e.demand.Serves(name, -1) == nil
}

// Named takes a name of the form MODEL@LABEL or MODEL@VERSION apart, unless there is a
// model of that whole name.
func (e *Engine) Named(name string) (model string, ask rollout.Ask) {
	if model, ask, ok := rollout.SplitName(name); ok && e.Serves(name, -1) != nil {
		return model, ask
	}
	return name, rollout.Ask{Version: -1}
}

// Inside is Named for who is in the process and has but a number for a version, -1 for
// none: programs, models, the C library. Where there is no such model the name is whole,
// and they are told what they were told before there were labels.
func (e *Engine) Inside(name string, version int64) (model string, ask rollout.Ask) {
	if version == -1 && strings.Contains(name, "@") {
		if model, ask := e.Named(name); model != name && e.Serves(model, -1) == nil {
			return model, ask
		}
	}
	return name, rollout.Ask{Version: version}
}

// Numbered is Inside for what has no request in flight.
func (e *Engine) Numbered(name string, version int64) (model string, number int64, err error) {
	model, ask := e.Inside(name, version)
	number, err = e.Version(model, ask)
	return model, number, err
}

// Settle chooses the version of a request that names none, for one that becomes several
// requests to the model: what it returns leads all of them there.
func (e *Engine) Settle(name string, ask rollout.Ask) rollout.Ask { return e.life.Choose(name, ask) }

func (e *Engine) explain(name string, ask *rollout.Ask) *backend.Error {
	if ask.Label != "" {
		return e.life.ExplainLabel(name, ask.Label)
	}
	return e.life.Explain(name, ask.Version)
}

// Continue is for a request that has been decoded: one of a sequence goes on to the
// version where that has begun, wherever its label or the weights point now. What it
// returns takes the place of p.
func (p Pin) Continue(r *infer.Request) Pin {
	if p.route == nil || !p.route.Plan.Sequences || p.route.Reason == rollout.ByNumber || r.Correlation.IsZero() ||
		p.Model.HoldsSequence(r.Correlation) {
		return p
	}
	m := p.e.life.Sibling(p.Model.Config().Name, r.Correlation, p.Model)
	if m == nil {
		return p
	}
	p.Model.Unpin()
	p.Model = m
	p.route.Reason = rollout.BySequence
	r.Owner, r.ModelVersion = m, m.Version()
	return p
}

// follow is Continue for a request of a model, which is still to be made.
func (p Pin) follow(ask *rollout.Ask, id backend.CorrelationID) Pin {
	name := p.Model.Config().Name
	if ask.Version != -1 || id.IsZero() || !p.e.life.HasRules(name) || p.Model.HoldsSequence(id) {
		return p
	}
	if m := p.e.life.Sibling(name, id, p.Model); m != nil {
		p.Model.Unpin()
		p.Model = m
	}
	return p
}

// begin counts a request that is about to be executed under rules, and copies it where
// they ask for that.
func (e *Engine) begin(r *infer.Request) *requestCopy {
	w := r.Route
	w.Live.Serve(rollout.Served{Version: r.ModelVersion, Label: w.Label, Reason: w.Reason})
	return e.copy(r)
}

// refused takes what Infer says of a request that it has not taken.
func (e *Engine) refused(r *infer.Request, copied *requestCopy, err error) {
	if copied != nil {
		copied.giveUp(rollout.Skipped)
	}
	switch backend.AsError(err).Code {
	case backend.Internal, backend.Unavailable, backend.Unknown:
		e.judge(r, true, 0)
	default: // the client is to blame
	}
}

// routed takes the end of a request that has been answered. One that its client gave up
// says nothing of its version, but that there was no answer until then.
func (e *Engine) routed(r *infer.Request) {
	if r.Times.End == 0 {
		return
	}
	took := time.Duration(r.Times.End - r.Times.Start)
	switch _, why := r.Failure(); {
	case why == infer.NoFailure:
		e.judge(r, false, took)
	case why == infer.Canceled || r.Unheard():
		if s := r.Route.Plan.Rules.StepBack; s != nil && s.MaxLatency > 0 && took > s.MaxLatency && r.Times.Response == 0 {
			e.judge(r, false, took)
		}
	default:
		e.judge(r, true, 0)
	}
}

// judge tells the monitor of the end of a request, and steps back if that is too much.
func (e *Engine) judge(r *infer.Request, failed bool, latency time.Duration) {
	live := r.Route.Live
	if plan, why := live.Ended(backend.Now(), r.ModelVersion, failed, latency); plan != nil {
		e.life.StepBack(r.ModelName, plan, live, why)
	}
}

// Route changes the rules for the versions of a model (explicit control mode only); see
// rollout.Amend for the text.
func (e *Engine) Route(ctx context.Context, name string, change []byte) error {
	switch {
	case e.State() != Ready:
		return notReady()
	case e.o.ControlMode != "explicit":
		return backend.Errorf(backend.Unavailable, "the rules for the versions of a model can be changed with %s=explicit only; otherwise the "+
			"file %s in the model's directory has them", e.o.Words.Name("model-control-mode"), rollout.File)
	}
	return e.life.Route(ctx, name, change)
}

// Routing is what holds for the versions of a model, and what has happened under it.
type Routing struct {
	routing.Routing
	Numbers rollout.Numbers
}

// Routings returns what holds for all models with rules.
func (e *Engine) Routings() []Routing {
	var all []Routing
	for _, r := range e.life.Routings() {
		all = append(all, Routing{r, r.Live.Numbers(backend.Now())})
	}
	return all
}

// RoutingJSON describes what holds for the versions of a model, and what has happened.
func (e *Engine) RoutingJSON(name string) ([]byte, error) {
	if s := e.State(); s != Ready {
		return nil, notReady()
	}
	r, there := e.life.Routing(name)
	if !there && e.comes(name) {
		return nil, backend.Errorf(backend.Unavailable, "model '%s' is not loaded: the rules for its versions are known once it has been loaded",
			name)
	}
	if !there {
		return nil, e.life.Explain(name, -1)
	}
	doc := routingDocument{Model: name, Rules: &rollout.Rules{}, Versions: []versionDocument{}}
	var n rollout.Numbers
	if r.Plan != nil {
		n = r.Live.Numbers(backend.Now())
		doc.Rules = &r.Plan.Rules
		doc.Primary = strconv.FormatInt(r.Plan.Primary, 10)
		doc.Difference = n.Difference
		if s := r.Plan.Stepped; s != nil {
			doc.SteppedBack = &stepDocument{At: s.At.UTC().Format(time.RFC3339), Version: strconv.FormatInt(s.Version, 10), Why: s.Why}
		}
		if r.Plan.Watched != 0 {
			doc.Window = &windowDocument{strconv.FormatInt(r.Plan.Watched, 10), n.Window.Requests, n.Window.Failed}
		}
	}
	for _, v := range r.Versions {
		doc.Versions = append(doc.Versions, versionOf(v, r.Plan, &n))
	}
	return json.Marshal(&doc)
}

func versionOf(v int64, p *rollout.Plan, n *rollout.Numbers) versionDocument {
	d := versionDocument{Version: strconv.FormatInt(v, 10), Labels: []string{}, Requests: map[string]int64{}}
	if p == nil {
		return d
	}
	d.Labels = append(d.Labels, p.Labelled(v)...)
	d.Share, d.StepBacks = p.Share(v), n.StepBacks[v]
	for _, c := range n.Requests {
		if c.Version == v {
			d.Requests[c.Reason.String()] += c.Count
		}
	}
	if counts, ok := n.Mirrored[v]; ok {
		d.Mirrored = map[string]int64{}
		for o, count := range counts {
			d.Mirrored[rollout.Outcome(o).String()] = count
		}
	}
	return d
}

type routingDocument struct {
	Model string `json:"model"`
	// Rules are as a request that sets them is.
	Rules       *rollout.Rules    `json:"rules"`
	Primary     string            `json:"primary,omitempty"`
	SteppedBack *stepDocument     `json:"stepped_back,omitempty"`
	Window      *windowDocument   `json:"window,omitempty"`
	Difference  string            `json:"last_difference,omitempty"`
	Versions    []versionDocument `json:"versions"`
}

type stepDocument struct {
	At      string `json:"at"`
	Version string `json:"version"`
	Why     string `json:"why"`
}

type windowDocument struct {
	Version  string `json:"version"`
	Requests int64  `json:"requests"`
	Failed   int64  `json:"failed"`
}

type versionDocument struct {
	Version   string           `json:"version"`
	Labels    []string         `json:"labels"`
	Share     float64          `json:"share"`
	Requests  map[string]int64 `json:"requests"`
	Mirrored  map[string]int64 `json:"mirrored,omitempty"`
	StepBacks int64            `json:"step_backs,omitempty"`
}
