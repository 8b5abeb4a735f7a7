package dynamic

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
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts anew")

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the
// indented lines below them what the batcher does.
//
//	batcher max=8 [preferred=4,8] [delay=100us] [instances=1] [depth=1] [hold=0] [levels=2]
//	        [policy=SPEC] [policy.1=SPEC]      SPEC: timeout:10us/action:delay/override/size:2
//	        [limit=1]            units of a resource, of which each instance and a rival need one
//	@TIME enqueue NAME [size=1] [level=1] [timeout=US] [shape=3] [without]
//	@TIME cancel NAME
//	@TIME done NAME      the batch that begins with NAME has been executed
//	@TIME tick
//	@TIME rival takes    another model asks for a unit
//	@TIME rival frees
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
			got := play(t, want)
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

func play(t *testing.T, script []byte) []byte {
	t.Helper()
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
		case words[0] == "batcher":
			p = newPlayer(words[1:])
		default:
			p.event(words, &out)
		}
	}
	return out.Bytes()
}

type player struct {
	b       *batcher
	entries map[string]*entry
	running map[string]*batch
	slots   int

	rival *ratelimit.Group // another model, with one instance
	turn  bool
	out   *bytes.Buffer
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

func policy(s string) modelconfig.QueuePolicy {
	var p modelconfig.QueuePolicy
	for part := range strings.SplitSeq(s, "/") {
		k, v, _ := strings.Cut(part, ":")
		switch k {
		case "timeout":
			p.DefaultTimeout = duration(v)
		case "action":
			if v == "delay" {
				p.Action = modelconfig.Delay
			}
		case "override":
			p.AllowTimeoutOverride = true
		case "size":
			p.MaxQueueSize = number(v, 0)
		}
	}
	return p
}

func newPlayer(words []string) *player {
	o := options(words)
	c := &modelconfig.DynamicBatching{
		MaxQueueDelay: duration(o["delay"]), PriorityLevels: uint64(number(o["levels"], 0)),
		DefaultPolicy: policy(o["policy"]), Policies: map[uint64]modelconfig.QueuePolicy{},
	}
	for s := range strings.SplitSeq(o["preferred"], ",") {
		if s != "" {
			c.PreferredBatchSizes = append(c.PreferredBatchSizes, number(s, 0))
		}
	}
	for k, v := range o {
		if n, ok := strings.CutPrefix(k, "policy."); ok {
			c.Policies[uint64(number(n, 0))] = policy(v)
		}
	}
	same := scheduler.NewCompatibility(&modelconfig.Config{MaxBatchSize: 1, Inputs: []modelconfig.Input{
		{Name: "IN", Dims: tensor.Shape{-1}}, {Name: "OPT", Dims: tensor.Shape{1}, Optional: true},
	}})
	slots := number(o["instances"], 1)
	p := &player{
		b:       newBatcher(number(o["max"], 0), c, same, slots, number(o["depth"], 1), number(o["hold"], 0)),
		entries: map[string]*entry{}, running: map[string]*batch{}, slots: slots,
	}
	if n := number(o["limit"], 0); n > 0 {
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
		p.tell(&fx, out)
		return
	}
	now := int64(duration(strings.TrimPrefix(words[0], "@"))) + 1
	var fx effects
	switch words[1] {
	case "enqueue":
		e := p.b.entry()
		e.request = makeRequest(words[2], options(words[3:]))
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
		p.b.done(now, p.running[words[2]], &fx)
		delete(p.running, words[2])
	case "rival":
		if words[2] == "takes" {
			p.answer(p.rival.Ask(0), out)
		} else {
			p.rival.Release(0, &fx.turns)
		}
	case "tick":
	default:
		panic("unknown event " + words[1])
	}
	p.b.step(now, &fx)
	for p.tell(&fx, out); p.turn; p.tell(&fx, out) {
		p.turn = false
		p.b.step(now, &fx)
	}
	p.print(&fx, out)
}

// tell gives their turn to those who have waited for it.
func (p *player) tell(fx *effects, out *bytes.Buffer) {
	if p.out = out; p.rival != nil {
		fx.turns.Tell()
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
	p.b.limits = group
	group.OnTurn(func() { p.turn = true })
	p.rival.OnTurn(func() { p.answer(p.rival.Ask(0), p.out) })
}

func (p *player) print(fx *effects, out *bytes.Buffer) {
	for e := fx.expired; e != nil; e = e.next {
		fmt.Fprintf(out, "  expire %s\n", e.request.ID)
		delete(p.entries, e.request.ID)
	}
	for x := fx.start; x != nil; x = x.next {
		fmt.Fprintf(out, "  run")
		for _, e := range x.entries {
			fmt.Fprintf(out, " %s", e.request.ID)
			delete(p.entries, e.request.ID)
		}
		fmt.Fprintf(out, ": size %d, %s", x.size, x.reason)
		if p.slots > 1 {
			fmt.Fprintf(out, ", instance %d", x.slot)
		}
		out.WriteByte('\n')
		p.running[x.entries[0].request.ID] = x
	}
	if at := p.b.wake(); at != 0 {
		fmt.Fprintf(out, "  wake @%v\n", time.Duration(at-1))
	}
}

func makeRequest(name string, o map[string]string) *infer.Request {
	r := infer.New(nil, nil)
	r.ID, r.BatchSize = name, number(o["size"], 1)
	r.Priority, r.Timeout = uint64(number(o["level"], 1)), uint64(number(o["timeout"], 0))
	r.Inputs = []tensor.Tensor{{Name: "IN", Shape: tensor.Shape{int64(r.BatchSize), int64(number(o["shape"], 1))}}}
	if _, without := o["without"]; !without {
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "OPT", Shape: tensor.Shape{int64(r.BatchSize), 1}})
	}
	return r
}

var _ backend.Responder = (*scheduler.Ticket)(nil)
