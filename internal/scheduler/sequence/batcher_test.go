package sequence

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts anew")

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the
// indented lines below them what the batcher does. A request's name begins with
// the letters of its sequence: a1 and a2 are of sequence a.
//
//	direct max=4 [instances=1] [delay=100us] [utilization=0.5] [idle=1s] [backlog=100]
//	oldest max=4 [candidates=8] [preferred=2,4] [depth=1] ...the same
//	@TIME enqueue NAME [start] [end] [timeout=US] [shape=3]
//	@TIME cancel NAME
//	@TIME done NAME [again=NAME] [gone=NAME] [late=NAME,NAME]
//	                                           the batch with NAME has been executed; gone: its client was not there any more; late: come back after it
//	@TIME back NAME [over]                     a late one comes back, to run again unless it is over
//	@TIME tick
//	stop                                       no new sequences
//	close
func TestTranscripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(want)
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func play(script []byte) []byte {
	var out bytes.Buffer
	var p *player
	lines := bufio.NewScanner(bytes.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "direct" || words[0] == "oldest" || words[0] == "iterative":
			p = newPlayer(words)
		default:
			p.event(words, &out)
		}
	}
	return out.Bytes()
}

type player struct {
	b       *batcher
	entries map[string]*entry
	running []*batch
	late    map[string]*entry
	many    bool
}

func options(words []string) map[string]string {
	o := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	return o
}

func number(s string, otherwise int) int {
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func newPlayer(words []string) *player {
	o := options(words[1:])
	c := &modelconfig.SequenceBatching{MaxIdle: time.Second, Iterative: words[0] == "iterative"}
	if o["idle"] != "" {
		c.MaxIdle = duration(o["idle"])
	}
	if _, direct := o["direct"]; words[0] != "direct" && !direct {
		c.Oldest = &modelconfig.OldestStrategy{MaxCandidateSequences: number(o["candidates"], 0), MaxQueueDelay: duration(o["delay"])}
		for s := range strings.SplitSeq(o["preferred"], ",") {
			if s != "" {
				c.Oldest.PreferredBatchSizes = append(c.Oldest.PreferredBatchSizes, number(s, 0))
			}
		}
	} else {
		u, _ := strconv.ParseFloat(o["utilization"], 32)
		c.Direct = &modelconfig.DirectStrategy{MaxQueueDelay: duration(o["delay"]), MinimumSlotUtilization: float32(u)}
	}
	same := scheduler.NewCompatibility(&modelconfig.Config{MaxBatchSize: 1, Inputs: []modelconfig.Input{{Name: "IN", Dims: tensor.Shape{-1}}}})
	n := number(o["instances"], 1)
	return &player{
		b:       newBatcher(number(o["max"], 0), c, same, n, number(o["depth"], 1), number(o["backlog"], 100)),
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
	now := int64(duration(strings.TrimPrefix(words[0], "@"))) + 1
	var fx effects
	switch o := options(words[2:]); words[1] {
	case "enqueue":
		e := p.b.entry()
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
			return slices.ContainsFunc(x.entries, func(e *entry) bool { return e != nil && e.request.ID == words[2] })
		})
		for k, e := range p.running[i].entries {
			if e != nil && slices.Contains(strings.Split(o["late"], ","), e.request.ID) {
				p.late[e.request.ID] = e
				p.running[i].entries[k] = nil
				p.running[i].late++
				e.late = true
				continue
			}
			if e != nil && e.request.ID == o["again"] {
				e.again = true
				p.entries[e.request.ID] = e
			}
			if e != nil && e.request.ID == o["gone"] {
				e.cancelled = true
			}
		}
		p.b.done(now, p.running[i], false, &fx)
		p.running = slices.Delete(p.running, i, i+1)
	case "back":
		e := p.late[words[2]]
		delete(p.late, words[2])
		if _, over := o["over"]; !over {
			e.again = true
			p.entries[words[2]] = e
		}
		p.b.executed(now, e, &fx)
	case "tick":
	default:
		panic("unknown event " + words[1])
	}
	p.b.step(now, &fx)
	p.print(&fx, out)
}

func (p *player) print(fx *effects, out *bytes.Buffer) {
	for e := fx.failed; e != nil; e = e.next {
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
	for x := fx.start; x != nil; x = x.next {
		out.WriteString("  run")
		for _, e := range x.entries {
			if e == nil {
				out.WriteString(" -")
				continue
			}
			fmt.Fprintf(out, " %s", e.request.ID)
			delete(p.entries, e.request.ID)
		}
		fmt.Fprintf(out, ": %s", x.reason)
		if p.many {
			fmt.Fprintf(out, ", instance %d", x.instance)
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
	r.ID, r.BatchSize, r.Timeout = name, 1, uint64(number(o["timeout"], 0))
	r.Inputs = []tensor.Tensor{{Name: "IN", Shape: tensor.Shape{1, int64(number(o["shape"], 1))}}}
	return r
}
