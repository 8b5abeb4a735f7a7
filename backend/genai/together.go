package genai

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/genai/step"
)

// together writes all texts of a model at once: one run of the network computes the next token of
// each. Texts come in and leave between two tokens. A prompt is read in parts, one before each
// token of the others, in the order in which the texts came. One goroutine does it all.
type together struct {
	network *network
	step    *step.Network
	limits  limits
	joins   chan *writing
	stop    chan struct{}
	ending  sync.Once // closes stop
	done    chan struct{}

	// Of the goroutine alone.
	waiting []*writing // the first is being read
	blocked bool       // the first needs memory that there is not until a text leaves
	active  []*writing // by place in the cache
	joined  int        // how many have been read
	tokens  []int32
	lengths []int
}

// writing is a text that is being written.
type writing struct {
	mailbox
	task    *task
	chooser *generator // nil where the most likely token is taken
	left    atomic.Bool
	dropped chan struct{}

	// Of the goroutine that computes alone.
	place  int
	length int   // tokens that are in the cache
	token  int32 // that comes next
	count  int   // tokens that were written
	order  int   // among those that were read
	ended  bool
}

// lookSeldom is how often a request that waits for its text asks whether its client has
// gone: [together.leave] asks before each token anyway. A timer that fires more often
// keeps Go's scheduler awake, which takes a part of a core from the computation.
const lookSeldom = 250 * time.Millisecond

// errEnded is for who comes when the model is being unloaded.
var errEnded error = backend.Errorf(backend.Unavailable, "the model is being unloaded")

func newTogether(n *network, st *step.Network, l limits) *together {
	g := &together{network: n, step: st, limits: l, joins: make(chan *writing), stop: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	return g
}

// begin hands a task over. What the library refuses of it is told at once.
func (g *together) begin(t *task, gone func() bool) (source, error) {
	x := &writing{mailbox: newMailbox(gone, lookSeldom), task: t, dropped: make(chan struct{})}
	if t.chooses(g.network.settings) {
		var err error
		if x.chooser, err = g.network.newGenerator(&t.options, t.prompt); err != nil {
			return nil, err
		}
	}
	select {
	case g.joins <- x:
		return &member{x}, nil
	case <-g.done:
		x.free()
		return nil, errEnded
	}
}

// member is the writer's end of a text.
type member struct{ *writing }

// close takes the text out, with what it had of the cache.
func (m *member) close() {
	m.left.Store(true)
	<-m.dropped
}

// free ends a text of which nothing more is computed.
func (x *writing) free() {
	if x.chooser != nil {
		x.chooser.close()
	}
	close(x.dropped)
}

// close ends all texts. It may be called twice.
func (g *together) close() {
	g.ending.Do(func() { close(g.stop) })
	<-g.done
}

func (g *together) run() {
	defer close(g.done)
	defer g.step.Close()
	defer func() { g.end(errEnded) }()
	for {
		if len(g.active)+len(g.waiting) == 0 {
			g.step.Clear()
			select {
			case x := <-g.joins:
				g.waiting = append(g.waiting, x)
			case <-g.stop:
				return
			}
		}
		for more := true; more; {
			select {
			case x := <-g.joins:
				g.waiting = append(g.waiting, x)
			case <-g.stop:
				return
			default:
				more = false
			}
		}
		g.leave()
		g.read()
		g.write()
	}
}

// end fails all texts.
func (g *together) end(err error) {
	for _, x := range slices.Concat(g.active, g.waiting) {
		x.fail(err)
		x.free()
	}
	g.active, g.waiting = nil, nil
}

// leave takes out the texts that have ended or that nobody waits for.
func (g *together) leave() {
	for i, x := range slices.Backward(g.waiting) {
		if x.over() {
			g.waiting = slices.Delete(g.waiting, i, i+1)
			g.blocked = g.blocked && i > 0
			x.fail(errGone) // unless it has ended
			x.free()
		}
	}
	for i := len(g.active) - 1; i >= 0; i-- {
		x := g.active[i]
		if !x.over() {
			continue
		}
		last := len(g.active) - 1
		g.put(g.active[last], i)
		g.active[i] = g.active[last]
		g.active = g.active[:last]
		g.blocked = false
		x.fail(errGone) // unless it has ended
		x.free()
		if len(g.waiting) > 0 && g.waiting[0].length > 0 {
			g.put(g.waiting[0], last) // it comes right behind them
		}
	}
}

func (x *writing) over() bool { return x.ended || x.left.Load() || x.gone() }

// put moves a text within the cache.
func (g *together) put(x *writing, place int) {
	g.step.Move(x.place, place, x.length)
	x.place = place
}

// read reads a part of the first prompt that waits, and with its end chooses the first token. A
// text that is read alone is read at once, as far as the memory for its logits goes.
func (g *together) read() {
	if len(g.waiting) == 0 || g.blocked {
		return
	}
	x := g.waiting[0]
	if x.length == 0 {
		if err := g.makeRoom(x); err != nil {
			// It waits for the next one that leaves; where there is none it never has room.
			if g.blocked = len(g.active) > 0; !g.blocked {
				g.refuse(err)
			}
			return
		}
		x.place = len(g.active)
	}
	prompt := x.task.prompt
	part := prompt[x.length:min(len(prompt), x.length+g.step.Part())]
	logits, err := g.step.Read(x.place, x.length, part)
	if err != nil { // the others have what they had
		g.refuse(backend.Errorf(backend.AsError(err).Code, "the network failed to read the prompt: %v", err))
		return
	}
	x.length += len(part)
	if x.length < len(prompt) {
		return
	}
	g.waiting = slices.Delete(g.waiting, 0, 1)
	g.joined++
	x.order = g.joined
	g.active = append(g.active, x)
	x.choose(g.network, logits)
}

// refuse fails the first text that waits.
func (g *together) refuse(err error) {
	x := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	x.fail(err)
	x.free()
}

// makeRoom makes the cache so large that a text has its place in it.
func (g *together) makeRoom(x *writing) error {
	need := step.Room{Rows: len(g.active) + 1, Length: x.task.tokens()}
	lengths := g.lengths[:0]
	for _, y := range g.active {
		need.Length = max(need.Length, y.task.tokens())
		lengths = append(lengths, y.length)
	}
	g.lengths = lengths
	limit := max(g.limits.cache/g.network.perToken, need.Tokens())
	room := g.step.Room().Fit(need, limit, g.limits.sequences)
	err := g.step.Reserve(room, lengths)
	if err != nil && room != need {
		err = g.step.Reserve(need, lengths)
	}
	return err
}

// write computes the next token of all texts that have been read. Where that fails, for want of
// memory say, the text that came last is given up, and the others are computed without it: what
// they have in the cache is as it was.
func (g *together) write() {
	g.leave() // who has ended with the first token
	var logits []float32
	for len(g.active) > 0 {
		g.tokens, g.lengths = g.tokens[:0], g.lengths[:0]
		for _, x := range g.active {
			g.tokens, g.lengths = append(g.tokens, x.token), append(g.lengths, x.length)
		}
		var err error
		if logits, err = g.step.Step(g.tokens, g.lengths); err == nil {
			break
		}
		last := slices.MaxFunc(g.active, func(a, b *writing) int { return a.order - b.order })
		last.fail(backend.Errorf(backend.AsError(err).Code, "the network failed: %v", err))
		last.ended = true
		g.leave()
	}
	size := g.step.Vocabulary()
	var choosers sync.WaitGroup
	for i, x := range g.active {
		x.length++
		mine := logits[i*size : (i+1)*size]
		if x.chooser == nil {
			x.choose(g.network, mine)
			continue
		}
		choosers.Go(func() { x.choose(g.network, mine) })
	}
	choosers.Wait()
}

// choose chooses the next token of a text, and sends it.
func (x *writing) choose(n *network, logits []float32) {
	t, p := x.task, piece{}
	var sum float64
	if t.logprobs > 0 {
		p.best, sum = candidates(logits, t.logprobs)
	}
	if x.chooser == nil {
		var without []int32
		if x.count < t.minTokens {
			without = n.settings.Model.EndOfText
		}
		p.token = step.Likeliest(logits, without)
	} else {
		if t.logprobs > 0 {
			logits = slices.Clone(logits) // the library changes those that it is given
		}
		token, err := x.chooser.choose(logits)
		if err != nil {
			x.fail(err)
			x.ended = true
			return
		}
		p.token = token
	}
	if t.logprobs > 0 {
		p.taken = takenFrom(logits, sum, p.token)
	}
	x.count++
	x.token = p.token
	p.done = x.count >= t.maxTokens || n.settings.ends(p.token)
	x.ended = p.done
	x.put(p)
}

// tokens is how long the text may become.
func (t *task) tokens() int { return len(t.prompt) + t.maxTokens }

// chooses reports whether tokens are chosen otherwise than that the most likely one is taken.
func (t *task) chooses(s *settings) bool {
	repetition, noRepeat := s.Search.Repetition, s.Search.NoRepeat
	if t.repetition != nil {
		repetition = *t.repetition
	}
	if t.noRepeat != nil {
		noRepeat = *t.noRepeat
	}
	return t.samples(s) || t.guidance != "" || repetition != 1 && repetition != 0 || noRepeat > 0
}
