package ensemble

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the
// indented lines below them what follows.
//
//	model NAME IN:FP32[-1];B?:FP32[2] -> OUT:FP32[-1] [batch=4] [decoupled] [version=2]
//	ensemble NAME X:FP32[-1] -> Y:FP32[-1] [batch=4]
//	step NAME[/VERSION] IN=X,B=Z -> OUT=t
//	graph                        check it
//	begin X=V,Z=W [for Y,Z]      a request with these inputs, of which outputs are asked
//	respond RUN OUT=V,...        a response of the run that "start" has numbered; - for no output
//	final RUN
//	fail RUN TEXT
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		p := &player{t: t, models: map[string]*modelconfig.Config{}, buffers: map[string]*tensor.Buffer{}}
		return transcript.Events(script, &p.out, p.event)
	})
}

type player struct {
	t       *testing.T
	out     bytes.Buffer
	models  map[string]*modelconfig.Config
	config  *modelconfig.Config
	g       *Graph
	f       flow
	runs    []start
	buffers map[string]*tensor.Buffer
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, "  "+format+"\n", args...) }

func (p *player) event(w []string) {
	switch w[0] {
	case "model":
		c := parseModel(w[1:])
		p.models[c.Name+"/"+strconv.Itoa(transcript.Number(transcript.Options(w)["version"], 1))] = c
	case "ensemble":
		p.config, p.g = parseModel(w[1:]), nil
		p.config.Ensemble = &modelconfig.Ensemble{}
	case "step":
		name, version, _ := strings.Cut(w[1], "/")
		s := modelconfig.Step{Model: name, Version: -1, InputMap: pairs(w[2]), OutputMap: pairs(w[4])}
		if version != "" {
			s.Version, _ = strconv.ParseInt(version, 10, 64)
		}
		p.config.Ensemble.Steps = append(p.config.Ensemble.Steps, s)
	case "graph":
		p.graph()
	case "begin":
		p.begin(w)
	case "respond":
		p.respond(w)
	case "final":
		at := p.runs[transcript.Number(w[1], 0)-1]
		p.f.end(at)
		p.f.retire(at.scope)
		p.settle()
	case "fail":
		p.f.fail(backend.Errorf(backend.InvalidArg, "%s", w[2]))
		p.f.end(p.runs[transcript.Number(w[1], 0)-1])
		p.settle()
	default:
		p.t.Fatalf("unknown event %q", w)
	}
}

func (p *player) lookup(model string, version int64) *modelconfig.Config {
	if version >= 0 {
		return p.models[model+"/"+strconv.FormatInt(version, 10)]
	}
	for v := 9; v > 0; v-- {
		if c := p.models[model+"/"+strconv.Itoa(v)]; c != nil {
			return c
		}
	}
	return nil
}

func (p *player) graph() {
	g, err := NewGraph(p.config, p.lookup)
	if err != nil {
		for fault := range strings.SplitSeq(err.Error(), "; ") {
			p.say("%s", fault)
		}
		return
	}
	p.g, p.f = g, flow{} // a flow serves one graph
	for i := range g.steps {
		s := &g.steps[i]
		loops := ""
		if s.unbound {
			loops = ", comes again"
		}
		p.say("step %s runs in %d, makes %d%s", s.model, s.label, s.makes, loops)
	}
	p.say("decoupled: %v", g.Decoupled())
}

func (p *player) begin(w []string) {
	inputs := p.tensors(w[1])
	var asked []string
	for i := range p.g.outputs {
		asked = append(asked, p.g.outputs[i].name)
	}
	if len(w) > 2 {
		asked = strings.Split(w[3], ",")
	}
	p.runs = nil
	p.f.begin(p.g, p.g.need(asked), inputs)
	for i := range inputs {
		inputs[i].Release()
	}
	p.settle()
}

func (p *player) respond(w []string) {
	at := p.runs[transcript.Number(w[1], 0)-1]
	if s := p.f.put(at, p.tensors(w[2]), sequence{}); s != nil {
		p.f.retire(s)
	}
	p.settle()
}

// settle says what the flow wants now.
func (p *player) settle() {
	for at, ok := p.f.next(); ok; at, ok = p.f.next() {
		p.runs = append(p.runs, at)
		s := &p.g.steps[at.step]
		var in []string
		for _, e := range s.in {
			if t, _, ok := p.f.take(at.scope, e); ok {
				in = append(in, e.name+"="+string(t.Data))
				t.Release() // as if the step had ended
			}
		}
		p.say("start %d: %s(%s) for %s", len(p.runs), s.model, strings.Join(in, ", "), strings.Join(p.f.n.request[at.step], ", "))
	}
	for s := p.f.answer(); s != nil; s = p.f.answer() {
		if s.missing == 0 {
			p.answer(s)
		}
		p.f.retire(s)
	}
	if p.f.done() {
		switch {
		case p.f.err != nil:
			p.say("error: %s", p.f.err.Message)
		case p.g.outLabel == 0:
			p.answer(p.f.root)
			p.say("end")
		default:
			p.say("end")
		}
		p.f.finish()
	}
	p.alive()
}

func (p *player) answer(s *scope) {
	outputs, _ := p.f.outputs(s, nil)
	var words []string
	for _, t := range outputs {
		words = append(words, t.Name+"="+string(t.Data))
		t.Release()
	}
	p.say("answer %s", strings.Join(words, " "))
}

// alive says which memory is held.
func (p *player) alive() {
	var names []string
	for name, b := range p.buffers {
		if n := b.References(); n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p.say("alive: %s", strings.Join(names, " "))
}

// tensors makes tensors of the form NAME=VALUE,..., whose content is the value.
func (p *player) tensors(text string) []tensor.Tensor {
	var all []tensor.Tensor
	if text == "-" {
		return nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, v, _ := strings.Cut(pair, "=")
		b := tensor.NewBuffer([]byte(v), nil)
		p.buffers[v] = b
		all = append(all, tensor.Tensor{Name: name, Data: b.Bytes(), Buffer: b, Shape: tensor.Shape{1}})
	}
	return all
}

func pairs(text string) map[string]string {
	m := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		m[k] = v
	}
	return m
}

// parseModel reads "NAME INPUTS -> OUTPUTS options".
func parseModel(w []string) *modelconfig.Config {
	c := &modelconfig.Config{
		Name: w[0], MaxBatchSize: transcript.Number(transcript.Options(w)["batch"], 0),
		Decoupled: slices.Contains(w, "decoupled"),
	}
	each := func(text string, f func(name string, d tensor.Datatype, dims tensor.Shape)) {
		for part := range strings.SplitSeq(text, ";") {
			name, rest, _ := strings.Cut(part, ":")
			kind, dims, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
			var shape tensor.Shape
			for d := range strings.SplitSeq(dims, ",") {
				shape = append(shape, int64(transcript.Number(d, 0)))
			}
			datatype := tensor.FP32
			for _, d := range tensor.Datatypes() {
				if d.String() == kind {
					datatype = d
				}
			}
			f(name, datatype, shape)
		}
	}
	each(w[1], func(name string, d tensor.Datatype, dims tensor.Shape) {
		plain := strings.TrimSuffix(name, "?")
		c.Inputs = append(c.Inputs, modelconfig.Input{Name: plain, Datatype: d, Dims: dims, Optional: plain != name})
	})
	each(w[3], func(name string, d tensor.Datatype, dims tensor.Shape) {
		c.Outputs = append(c.Outputs, modelconfig.Output{Name: name, Datatype: d, Dims: dims})
	})
	return c
}
