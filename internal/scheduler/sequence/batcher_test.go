package sequence

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the
// indented lines below them what the batcher does. A request's name begins with
// the letters of its sequence: a1 and a2 are of sequence a.
//
//	direct max=4 [instances=1] [delay=100us] [utilization=0.5] [idle=1s] [backlog=100] [hold=8] [holdbacklog=2]
//	oldest max=4 [candidates=8] [preferred=2,4] [depth=1] ...the same
//	@TIME enqueue NAME [start] [end] [timeout=US] [shape=3]
//	@TIME cancel NAME
//	@TIME done NAME [again=NAME] [gone=NAME] [late=NAME,NAME]
//	                                           the batch with NAME has been executed; gone: its client was not there
//	                                           any more; late: come back after it
//	@TIME back NAME [over]                     a late one comes back, to run again unless it is over
//	@TIME join 2                               an instance takes sequences from now on
//	@TIME leave 0                              an instance takes none any more
//	@TIME tick
//	stop                                       no new sequences
//	close
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(_ *testing.T, _, script string) string {
		var out bytes.Buffer
		var p *player
		return transcript.Events(script, &out, func(words []string) {
			switch words[0] {
			case "direct", "oldest", "iterative":
				p = newPlayer(words)
			default:
				p.event(words, &out)
			}
		})
	})
}

type player struct {
	b       *batcher
	entries map[string]*entry
	running []*batch
	late    map[string]*entry
	many    bool
	leaving []int
}

func newPlayer(words []string) *player {
	o := transcript.Options(words[1:])
	c := &modelconfig.SequenceBatching{MaxIdle: time.Second, Iterative: words[0] == "iterative"}
	if o["idle"] != "" {
		c.MaxIdle = transcript.Duration(o["idle"])
	}
	if _, direct := o["direct"]; words[0] != "direct" && !direct {
		c.Oldest = &modelconfig.OldestStrategy{
			MaxCandidateSequences: transcript.Number(o["candidates"], 0),
			MaxQueueDelay:         transcript.Duration(o["delay"]),
		}
		for s := range strings.SplitSeq(o["preferred"], ",") {
			if s != "" {
				c.Oldest.PreferredBatchSizes = append(c.Oldest.PreferredBatchSizes, transcript.Number(s, 0))
			}
		}
	} else {
		u, _ := strconv.ParseFloat(o["utilization"], 32)
		c.Direct = &modelconfig.DirectStrategy{MaxQueueDelay: transcript.Duration(o["delay"]), MinimumSlotUtilization: float32(u)}
	}
	same := scheduler.NewCompatibility(&modelconfig.Config{MaxBatchSize: 1, Inputs: []modelconfig.Input{{Name: "IN", Dims: tensor.Shape{-1}}}})
	n := transcript.Number(o["instances"], 1)
	b := newBatcher(transcript.Number(o["max"], 0), c, same, n, transcript.Number(o["depth"], 1), transcript.Number(o["backlog"], 100))
	b.holdFor(transcript.Number(o["hold"], 0), transcript.Number(o["holdbacklog"], 0))
	return &player{
		b:       b,
		entries: map[string]*entry{}, late: map[string]*entry{}, many: n > 1,
	}
}

func keyOf(name string) key {
	return key{CorrelationID: backend.CorrelationID{Text: strings.TrimRight(name, "0123456789")}}
}

func (p *player) event(words []string, out *bytes.Buffer) {
	switch words[0] {
	case "close":
		for e := p.b.drain(&effects{}); e != nil; e = e.next {
			fmt.Fprintf(out, "  refuse %s\n", e.request.ID)
		}
		return
	case "stop":
		p.b.stopping = true
		return
	}
	now := int64(transcript.Duration(strings.TrimPrefix(words[0], "@"))) + 1
	var fx effects
	switch o := transcript.Options(words[2:]); words[1] {
	case "enqueue":
		e := p.b.entries.Take()
		e.request = makeRequest(words[2], o)
		_, e.start = o["start"]
		_, e.end = o["end"]
		why, restarted := p.b.enqueue(now, keyOf(words[2]), e, &fx)
		if why != taken {
			fmt.Fprintf(out, "  %s %s\n", [...]string{"", "no start", "full", "stopping"}[why], words[2])
			p.b.release(e)
			return
		}
		if restarted {
			out.WriteString("  restarted\n")
		}
		p.entries[words[2]] = e
	case "cancel":
		e := p.entries[words[2]]
		if e == nil {
			out.WriteString("  too late\n")
			break
		}
		p.b.cancel(e, &fx)
	case "done":
		i := slices.IndexFunc(p.running, func(x *batch) bool {
			return slices.ContainsFunc(x.Entries, func(e *entry) bool { return e != nil && e.request.ID == words[2] })
		})
		for k, e := range p.running[i].Entries {
			if e != nil && slices.Contains(strings.Split(o["late"], ","), e.request.ID) {
				p.late[e.request.ID] = e
				p.running[i].Entries[k] = nil
				p.running[i].Late++
				e.execution.late = true
				continue
			}
			if e != nil && e.request.ID == o["again"] {
				e.execution.again = true
				p.entries[e.request.ID] = e
			}
			if e != nil && e.request.ID == o["gone"] {
				e.execution.gone = true
			}
		}
		p.b.done(now, p.running[i], &fx)
		p.running = slices.Delete(p.running, i, i+1)
	case "back":
		e := p.late[words[2]]
		delete(p.late, words[2])
		if _, over := o["over"]; !over {
			e.execution.again = true
			p.entries[words[2]] = e
		}
		p.b.executed(now, e, &fx)
	case "join":
		p.many = true
		p.b.join(transcript.Number(words[2], 0))
	case "leave":
		if p.b.leave(transcript.Number(words[2], 0)) {
			out.WriteString("  sequences are bound to it\n")
		}
		p.leaving = append(p.leaving, transcript.Number(words[2], 0))
	case "tick":
	default:
		panic("unknown event " + words[1])
	}
	p.b.step(now, &fx)
	p.print(&fx, out)
	p.leaving = slices.DeleteFunc(p.leaving, func(i int) bool {
		vacant := p.b.vacant(i)
		if vacant {
			fmt.Fprintf(out, "  instance %d has left\n", i)
		}
		return vacant
	})
}

func (p *player) print(fx *effects, out *bytes.Buffer) {
	for e := fx.Failed; e != nil; e = e.next {
		word := "cancelled"
		if e.seq.expired {
			word = "expired"
		}
		if e.seq.slow {
			word = "slow"
		}
		fmt.Fprintf(out, "  %s %s\n", word, e.request.ID)
		delete(p.entries, e.request.ID)
	}
	for x := fx.First; x != nil; x = x.Next {
		out.WriteString("  run")
		for _, e := range x.Entries {
			if e == nil {
				out.WriteString(" -")
				continue
			}
			fmt.Fprintf(out, " %s", e.request.ID)
			delete(p.entries, e.request.ID)
		}
		fmt.Fprintf(out, ": %s", x.Reason)
		if p.many {
			fmt.Fprintf(out, ", instance %d", x.Instance)
		}
		out.WriteByte('\n')
		p.running = append(p.running, x)
	}
	if at := p.b.wake(); at != 0 {
		fmt.Fprintf(out, "  wake @%v\n", time.Duration(at-1))
	}
}

func makeRequest(name string, o map[string]string) *infer.Request {
	r := infer.New(nil, nil)
	r.ID, r.BatchSize, r.Timeout = name, 1, uint64(transcript.Number(o["timeout"], 0))
	r.Inputs = []tensor.Tensor{{Name: "IN", Shape: tensor.Shape{1, int64(transcript.Number(o["shape"], 1))}}}
	return r
}
