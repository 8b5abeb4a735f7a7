package tracing

import (
	"strconv"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

const (
	// maxNodes bounds the requests on one timeline, those of a model that calls
	// others again and again.
	maxNodes = 4096
	// maxEvents bounds what the front end notes, two for each response.
	maxEvents = 8192
	// maxActivities bounds what a model notes of one request.
	maxActivities = 1024
	// maxText bounds the texts of one timeline: tensors, activities, ids of requests.
	maxText = 32 << 20
)

// event is a moment, in the clock of backend.Now.
type event struct {
	name string
	ns   int64
}

// Trace is a sampled request with all the requests that serve it. The front end
// holds it until the answer is written. Its methods may be called on nil.
type Trace struct {
	tracer  *Tracer
	sampler *sampler
	front   *Frontend // nil for a trace that begins inside the server
	// at is the position below the outermost span, and remote the client's above it.
	at, remote position
	sent       int // how many of events are of the arrival

	mu     sync.Mutex
	refs   int // the front end's, and one for each request that has not ended
	nodes  []*node
	events []event // of the front end
	text   int
	// each notes every response as complete, as the peer does for server-sent
	// events; else only the first one.
	each, over bool
	done       int64
}

// node is one request of a trace. It implements infer.Timeline.
type node struct {
	trace  *Trace
	id     uint64
	parent uint64
	span   spanID
	above  spanID
	// context is what the model is given.
	context string

	model, request string
	route          *rollout.Route // why the request went to its version; nil for most
	version        int64
	begun, ended   bool
	times          infer.Times
	composed       bool // an ensemble, which computes in its steps only
	tensors        []tensorText
	activities     []event // that the model has noted
	fault          string
}

// tensorText is a tensor in the form of the file.
type tensorText struct {
	activity string
	json     []byte
}

// add makes a request of the trace, which holds it from now on. The caller holds
// mu, or is the only one to know the trace.
func (tr *Trace) add(above *node) *node {
	n := &node{trace: tr, id: tr.tracer.last.Add(1)}
	if above != nil {
		n.parent, n.above = above.id, above.span
	} else {
		n.above = tr.at.span
	}
	if tr.tracer.config.Collector != nil {
		n.span = newSpanID()
		n.context = tr.at.context(n.span)
	} else {
		// Only this server can read it: the peer gives models nothing then, but the
		// requests that they send with it are of this trace.
		n.context = "#" + strconv.FormatUint(n.id, 10)
	}
	tr.nodes = append(tr.nodes, n)
	tr.refs++
	return n
}

func (tr *Trace) addFront(name string, ns int64) {
	if len(tr.events) < maxEvents {
		tr.events = append(tr.events, event{name, ns})
	}
}

// EachResponse makes every response count as complete when it is given.
func (tr *Trace) EachResponse() {
	if tr != nil {
		tr.mu.Lock()
		tr.each = true
		tr.mu.Unlock()
	}
}

// Send notes that an answer is being written, until the returned function is
// called.
func (tr *Trace) Send() func() {
	if tr == nil {
		return func() {}
	}
	note := func(name string) {
		now := backend.Now()
		tr.mu.Lock()
		tr.addFront(name, now)
		tr.mu.Unlock()
	}
	note(tr.front.sendStart)
	return func() { note(tr.front.sendEnd) }
}

// Done says that the front end notes nothing more. It may be called again.
func (tr *Trace) Done() {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	if tr.done != 0 {
		tr.mu.Unlock()
		return
	}
	tr.done = backend.Now()
	tr.release()
}

// release drops one hold and the caller's lock. The last hold exports.
func (tr *Trace) release() {
	tr.refs--
	last := tr.refs == 0
	tr.over = tr.over || last
	tr.mu.Unlock()
	if last {
		tr.tracer.out.export(tr)
	}
}

// Begin implements infer.Timeline.
func (n *node) Begin(r *infer.Request) {
	tr := n.trace
	r.Trace = n.context
	tr.tracer.remember(n)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n.begun, n.model, n.version, n.request, n.route = true, r.ModelName, r.ModelVersion, r.ID, r.Route
	tr.text += len(n.request) // its client says how long it is
	n.times = r.Times
	n.note("TENSOR_QUEUE_INPUT", r.Inputs)
}

// activity notes what the model says happened.
func (n *node) activity(name string, ns int64) {
	tr := n.trace
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !n.ended && len(n.activities) < maxActivities && tr.text+len(name) <= maxText {
		tr.text += len(name)
		n.activities = append(n.activities, event{name, ns})
	}
}

// note keeps tensors as text, where the level asks for it. The caller holds mu.
func (n *node) note(activity string, tensors []tensor.Tensor) {
	tr := n.trace
	if tr.sampler.settings.Level&Tensors == 0 || tr.tracer.config.Collector != nil {
		return
	}
	for i := range tensors {
		// An element takes at least two bytes of text, and may take one of data.
		if tr.text+len(tensors[i].Data) > maxText {
			tr.text = maxText + 1
			return
		}
		text := appendTensor(nil, &tensors[i])
		tr.text += len(text)
		n.tensors = append(n.tensors, tensorText{activity, text})
	}
}

// Queue implements infer.Timeline: when it was stands among the times of the request.
func (n *node) Queue(*infer.Request) {}

// Answer implements infer.Timeline.
func (n *node) Answer(r *infer.Request, resp *backend.Response) {
	tr := n.trace
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n.composed = n.composed || r.Times.Steps != nil
	if n.parent == 0 && tr.front != nil && (tr.each || len(tr.events) == tr.sent) {
		tr.addFront("INFER_RESPONSE_COMPLETE", backend.Now())
	}
	if resp != nil && resp.Err == nil {
		n.note("TENSOR_BACKEND_OUTPUT", resp.Outputs)
	}
}

// End implements infer.Timeline.
func (n *node) End(r *infer.Request, err error) {
	tr := n.trace
	tr.tracer.forget(n)
	tr.mu.Lock()
	if n.ended {
		tr.mu.Unlock()
		return
	}
	n.ended = true
	n.times = r.Times
	n.times.Steps = nil
	switch fail, _ := r.Failure(); {
	case err != nil:
		n.times.End = backend.Now()
		n.fault = err.Error()
	case fail != nil:
		n.fault = fail.Message
	}
	tr.text += len(n.fault)
	tr.release()
}

// Child implements infer.Timeline.
func (n *node) Child() infer.Timeline {
	tr := n.trace
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.over || len(tr.nodes) >= maxNodes {
		return nil
	}
	return tr.add(n)
}

// phases calls yield for the moments of a request in their order; compute says
// which belong to its execution.
func (n *node) phases(yield func(name string, ns int64, compute bool)) {
	t := &n.times
	if !n.begun {
		return
	}
	yield("REQUEST_START", t.Start, false)
	queue := t.Queue
	if queue == 0 {
		queue = t.Start
	}
	if n.fault == "" || t.Queue != 0 {
		yield("QUEUE_START", queue, false)
	}
	if t.ComputeStart != 0 && !n.composed {
		end := t.ComputeEnd
		if end == 0 {
			end = t.End
		}
		input := t.InputEnd
		if input == 0 {
			input = t.ComputeStart
		}
		output := t.OutputStart
		if output == 0 {
			output = end
		}
		yield("COMPUTE_START", t.ComputeStart, true)
		yield("COMPUTE_INPUT_END", input, true)
		for _, a := range n.activities {
			yield(a.name, a.ns, true)
		}
		yield("COMPUTE_OUTPUT_START", output, true)
		yield("COMPUTE_END", end, true)
	}
	yield("REQUEST_END", t.End, false)
}

var _ infer.Timeline = (*node)(nil)
