package dynamic

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the
// indented lines below them what the batcher does.
//
//	batcher max=8 [objective=50ms] [preferred=4,8] [delay=100us] [instances=1] [depth=1] [hold=0] [levels=2]
//	        [policy=SPEC] [policy.1=SPEC]      SPEC: timeout:10us/action:delay/override/size:2
//	        [limit=1]            units of a resource, of which each instance and a rival need one
//	@TIME enqueue NAME [size=1] [level=1] [timeout=US] [shape=3] [without]
//	@TIME cancel NAME
//	@TIME done NAME      the batch that begins with NAME has been executed
//	@TIME join 2    an instance gets batches from now on
//	@TIME leave 0   an instance gets none any more
//	@TIME tick
//	@TIME answer 2  the model's own strategy, of a batcher with `strategy`, has two of those asked join
//	@TIME rival takes    another model asks for a unit
//	@TIME rival frees
//	close
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(_ *testing.T, _, script string) string {
		var out bytes.Buffer
		var p *player
		return transcript.Events(script, &out, func(words []string) {
			if words[0] == "batcher" {
				p = newPlayer(words[1:])
			} else {
				p.event(words, &out)
			}
		})
	})
}

type player struct {
	b       *batcher
	entries map[string]*entry
	running map[string]*batch
	slots   int

	limits *ratelimit.Group
	rival  *ratelimit.Group // another model, with one instance
	turn   bool
	out    *bytes.Buffer
}

func policy(s string) modelconfig.QueuePolicy {
	var p modelconfig.QueuePolicy
	for part := range strings.SplitSeq(s, "/") {
		k, v, _ := strings.Cut(part, ":")
		switch k {
		case "timeout":
			p.DefaultTimeout = transcript.Duration(v)
		case "action":
			if v == "delay" {
				p.Action = modelconfig.Delay
			}
		case "override":
			p.AllowTimeoutOverride = true
		case "size":
			p.MaxQueueSize = transcript.Number(v, 0)
		}
	}
	return p
}

func newPlayer(words []string) *player {
	o := transcript.Options(words)
	c := &modelconfig.DynamicBatching{
		MaxQueueDelay: transcript.Duration(o["delay"]), PriorityLevels: uint64(transcript.Number(o["levels"], 0)),
		DefaultPolicy: policy(o["policy"]), Policies: map[uint64]modelconfig.QueuePolicy{},
	}
	for s := range strings.SplitSeq(o["preferred"], ",") {
		if s != "" {
			c.PreferredBatchSizes = append(c.PreferredBatchSizes, transcript.Number(s, 0))
		}
	}
	for k, v := range o {
		if n, ok := strings.CutPrefix(k, "policy."); ok {
			c.Policies[uint64(transcript.Number(n, 0))] = policy(v)
		}
	}
	same := scheduler.NewCompatibility(&modelconfig.Config{MaxBatchSize: 1, Inputs: []modelconfig.Input{
		{Name: "IN", Dims: tensor.Shape{-1}}, {Name: "OPT", Dims: tensor.Shape{1}, Optional: true},
	}})
	slots := transcript.Number(o["instances"], 1)
	p := &player{
		b:       newBatcher(transcript.Number(o["max"], 0), c, same, slots, transcript.Number(o["depth"], 1), transcript.Number(o["hold"], 0)),
		entries: map[string]*entry{}, running: map[string]*batch{}, slots: slots,
	}
	if limit := transcript.Duration(o["objective"]); limit > 0 {
		p.b.aimFor(limit)
	}
	if _, on := o["strategy"]; on {
		p.b.strategize()
	}
	if n := transcript.Number(o["limit"], 0); n > 0 {
		p.limit(n)
	}
	return p
}

func (p *player) event(words []string, out *bytes.Buffer) {
	if words[0] == "close" {
		var fx effects
		for e := p.b.drain(&fx); e != nil; e = e.next {
			fmt.Fprintf(out, "  refuse %s\n", e.request.ID)
		}
		withdraw(p.limits, &fx)
		p.tell(&fx, out)
		return
	}
	now := int64(transcript.Duration(strings.TrimPrefix(words[0], "@"))) + 1
	var fx effects
	switch words[1] {
	case "enqueue":
		r := makeRequest(words[2], transcript.Options(words[3:]))
		if retry, ok := p.b.admits(now, r.Size()); !ok {
			fmt.Fprintf(out, "  refuse %s, again in %v\n", words[2], retry.Round(time.Millisecond))
			return
		}
		e := p.b.entries.Take()
		e.request = r
		if !p.b.enqueue(now, e) {
			fmt.Fprintf(out, "  full %s\n", words[2])
			p.b.free(e)
			return
		}
		p.entries[words[2]] = e
	case "cancel":
		if e := p.entries[words[2]]; e == nil || !p.b.cancel(e) {
			out.WriteString("  too late\n")
		}
		delete(p.entries, words[2])
	case "done":
		done(now, p.b, p.limits, p.running[words[2]], &fx)
		delete(p.running, words[2])
	case "rival":
		if words[2] == "takes" {
			p.answer(p.rival.Ask(0), out)
		} else {
			p.rival.Release(0, &fx.Turns)
		}
	case "join", "leave":
		i := transcript.Number(words[2], 0)
		if p.slots = max(p.slots, i+1); words[1] == "join" {
			p.b.change([]int{i}, nil)
		} else {
			p.b.change(nil, []int{i})
		}
	case "answer":
		p.b.answered(transcript.Number(words[2], 0))
	case "tick":
	default:
		panic("unknown event " + words[1])
	}
	step(now, p.b, p.limits, &fx)
	for p.tell(&fx, out); p.turn; p.tell(&fx, out) {
		p.turn = false
		step(now, p.b, p.limits, &fx)
	}
	p.print(&fx, out)
}

// tell gives their turn to those who have waited for it.
func (p *player) tell(fx *effects, out *bytes.Buffer) {
	if p.out = out; p.rival != nil {
		fx.Turns.Tell()
	}
}

func (p *player) answer(turn bool, out *bytes.Buffer) {
	if turn {
		out.WriteString("  rival runs\n")
	} else {
		out.WriteString("  rival waits\n")
	}
}

// limit makes the instances share so many units of a resource with a rival.
func (p *player) limit(n int) {
	l := ratelimit.New([]ratelimit.Capacity{{Name: "R", Count: n, Device: ratelimit.EveryDevice}})
	in := ratelimit.Instance{Needs: []ratelimit.Need{{Name: "R", Count: 1}}, Priority: 1}
	group, err := l.Register(slices.Repeat([]ratelimit.Instance{in}, p.slots))
	if err == nil {
		p.rival, err = l.Register([]ratelimit.Instance{in})
	}
	if err != nil {
		panic(err)
	}
	p.limits = group
	group.OnTurn(func() { p.turn = true })
	p.rival.OnTurn(func() { p.answer(p.rival.Ask(0), p.out) })
}

func (p *player) print(fx *effects, out *bytes.Buffer) {
	for e := fx.Failed; e != nil; e = e.next {
		fmt.Fprintf(out, "  expire %s\n", e.request.ID)
		delete(p.entries, e.request.ID)
	}
	for x := fx.First; x != nil; x = x.Next {
		fmt.Fprintf(out, "  run")
		for _, e := range x.Entries {
			fmt.Fprintf(out, " %s", e.request.ID)
			delete(p.entries, e.request.ID)
		}
		fmt.Fprintf(out, ": size %d, %s", x.Size, x.Reason)
		if p.slots > 1 {
			fmt.Fprintf(out, ", instance %d", x.Instance)
		}
		out.WriteByte('\n')
		p.running[x.Entries[0].request.ID] = x
	}
	if len(p.b.due) > 0 {
		out.WriteString("  ask")
		for _, e := range p.b.due {
			fmt.Fprintf(out, " %s", e.request.ID)
		}
		out.WriteByte('\n')
		p.b.due = p.b.due[:0]
	}
	if at := p.b.wake(); at != 0 {
		fmt.Fprintf(out, "  wake @%v\n", time.Duration(at-1))
	}
}

func makeRequest(name string, o map[string]string) *infer.Request {
	r := infer.New(nil, nil)
	r.ID, r.BatchSize = name, transcript.Number(o["size"], 1)
	r.Priority, r.Timeout = uint64(transcript.Number(o["level"], 1)), uint64(transcript.Number(o["timeout"], 0))
	r.Inputs = []tensor.Tensor{{Name: "IN", Shape: tensor.Shape{int64(r.BatchSize), int64(transcript.Number(o["shape"], 1))}}}
	if _, without := o["without"]; !without {
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "OPT", Shape: tensor.Shape{int64(r.BatchSize), 1}})
	}
	return r
}

var _ backend.Responder = (*scheduler.Ticket)(nil)
