package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

// sums adds up in each version, by the id of the sequence, what its requests bring.
type sums struct {
	mu    sync.Mutex
	of    map[string]byte
	began map[int64]int // by version
	spoil func(version int64, r *backend.Request) error
}

func (s *sums) execute(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range b.Requests {
		if s.spoil != nil {
			if err := s.spoil(cfg.Version, r); err != nil {
				return false, err
			}
		}
		key, data := fmt.Sprint(cfg.Version, r.Correlation), r.Input("IN").Data
		if r.Flags&backend.SequenceStart != 0 {
			s.of[key] = 0
			s.began[cfg.Version]++
		}
		s.of[key] += data[0]
		data[0] = s.of[key]
	}
	return false, nil
}

// inSequence serves sums in two versions, of which the second is mirrored to.
func inSequence(t *testing.T, rules string, spoil func(version int64, r *backend.Request) error) (*Engine, *sums) {
	t.Helper()
	s := &sums{of: map[string]byte{}, began: map[int64]int{}, spoil: spoil}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig + "version_policy { all { } }\nsequence_batching { max_sequence_idle_microseconds: 3600000000 }\n" +
			"instance_group { count: 8 kind: KIND_CPU }\n",
		"a/1/": "", "a/2/": "", "a/rollout.yaml": "weights: {1: 1}\n" + rules,
	})
	return server(t, explicit(top, "a"), &nesotest.Echo{Name: "echo", OnExecute: s.execute}), s
}

// add sends one request of a sequence, and returns what it is answered with.
func add(t *testing.T, e *Engine, id backend.CorrelationID, n byte, flags backend.Flags) (byte, error) {
	t.Helper()
	p, err := e.Resolve(t.Context(), "a", -1, 8)
	if err != nil {
		t.Fatal(err)
	}
	sink := infer.NewSingle()
	r := p.NewRequest(sink)
	x := input(2)
	x.Data[0] = n
	r.Inputs, r.Correlation, r.Flags = []tensor.Tensor{x}, id, flags
	if err := e.Infer(r); err != nil {
		return 0, err
	}
	resp, failed := sink.Wait()
	if failed != nil {
		return 0, failed
	}
	defer resp.Release()
	return resp.Outputs[0].Data[0], nil
}

func adds(t *testing.T, e *Engine, id backend.CorrelationID, values ...byte) {
	t.Helper()
	sum := byte(0)
	for i, n := range values {
		var flags backend.Flags
		if i == 0 {
			flags |= backend.SequenceStart
		}
		if i == len(values)-1 {
			flags |= backend.SequenceEnd
		}
		sum += n
		if got, err := add(t, e, id, n, flags); got != sum || err != nil {
			t.Errorf("sequence %v: %d, %v; want %d", id, got, err, sum)
		}
	}
}

// outcomes waits until n copies have ended, and returns how.
func outcomes(t *testing.T, e *Engine, n int64) map[string]int64 {
	t.Helper()
	for {
		found, sum := map[string]int64{}, int64(0)
		for o, count := range e.Routings()[0].Numbers.Mirrored[2] {
			if sum += count; count > 0 {
				found[rollout.Outcome(o).String()] = count
			}
		}
		if sum >= n {
			return found
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%v have ended, want %d", found, n)
		case <-time.After(time.Millisecond):
		}
	}
}

func wantOutcomes(t *testing.T, e *Engine, want string) {
	t.Helper()
	var n, sum int64
	for part := range strings.FieldsSeq(strings.NewReplacer("map[", "", "]", "").Replace(want)) {
		_, _ = fmt.Sscanf(part[strings.IndexByte(part, ':')+1:], "%d", &n)
		sum += n
	}
	if got := fmt.Sprint(outcomes(t, e, sum)); got != want {
		t.Errorf("copies: %s, want %s", got, want)
	}
	wantFree(t, e)
}

// wantNoSequences holds that nothing is known any more of sequences of copies.
func wantNoSequences(t *testing.T, e *Engine) {
	t.Helper()
	for {
		e.mirrors.mu.Lock()
		n := len(e.mirrors.sequences)
		e.mirrors.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("a mirrored sequence is left")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestMirrorOfSequences: a sequence goes as a whole to the other version, which keeps its
// state under an id of its own, beside those of its clients.
func TestMirrorOfSequences(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]bool{}
	e, s := inSequence(t, "mirror: {to: 2, concurrency: 4}", func(version int64, r *backend.Request) error {
		if version == 2 {
			mu.Lock()
			defer mu.Unlock()
			ids[fmt.Sprint(r.Correlation)] = true
		}
		return nil
	})
	one, text, wide := backend.CorrelationID{Number: 7}, backend.CorrelationID{Text: "seven"}, backend.CorrelationID{Number: 1 << 40}
	adds(t, e, one, 1, 2, 3)
	adds(t, e, text, 5, 5)
	adds(t, e, wide, 4)
	adds(t, e, one, 9, 1)
	wantOutcomes(t, e, "map[equal:8]")
	wantNoSequences(t, e)
	if len(ids) != 4 || ids[fmt.Sprint(one)] || ids[fmt.Sprint(text)] || ids[fmt.Sprint(wide)] {
		t.Errorf("the copies had the ids %v, want one for each sequence, and no client's", ids)
	}
	for id := range ids {
		if !strings.Contains(id, "copy-") && !strings.HasSuffix(id, " }") {
			t.Errorf("id %q is of another kind", id)
		}
	}
	if s.began[1] != 4 || s.began[2] != 4 {
		t.Errorf("%v sequences began", s.began)
	}
}

// TestMirrorOfSequencesDiffers: a state that goes another way is seen at each answer.
func TestMirrorOfSequencesDiffers(t *testing.T) {
	e, _ := inSequence(t, "mirror: {to: 2}", func(version int64, r *backend.Request) error {
		if version == 2 && r.Input("IN").Data[0] == 2 {
			r.Input("IN").Data[0] = 3
		}
		return nil
	})
	adds(t, e, backend.CorrelationID{Number: 7}, 1, 2, 1)
	wantOutcomes(t, e, "map[different:2 equal:1]")
	wantNoSequences(t, e)
}

// TestMirrorOfSequencesBreaks: what follows a copy that has failed is not sent, and the
// place in the other version is free again.
func TestMirrorOfSequencesBreaks(t *testing.T) {
	e, _ := inSequence(t, "mirror: {to: 2, concurrency: 1}", func(version int64, r *backend.Request) error {
		if version == 2 && r.Input("IN").Data[0] == 2 {
			return errors.New("no")
		}
		return nil
	})
	seven := backend.CorrelationID{Number: 7}
	for i, n := range []byte{1, 2} {
		if _, err := add(t, e, seven, n, []backend.Flags{backend.SequenceStart, 0}[i]); err != nil {
			t.Fatal(err)
		}
	}
	wantOutcomes(t, e, "map[equal:1 failed:1]")
	wantNoSequences(t, e)
	if _, err := add(t, e, seven, 1, backend.SequenceEnd); err != nil {
		t.Fatal(err)
	}
	adds(t, e, seven, 1, 1)
	wantOutcomes(t, e, "map[equal:3 failed:1]")
	wantNoSequences(t, e)
}

// TestMirrorOfSequencesIsBounded: as many at a time as the rules say; a client that
// begins anew, or goes without an end, holds no place for ever; and the stop of the
// server does not wait for one.
func TestMirrorOfSequencesIsBounded(t *testing.T) {
	e, _ := inSequence(t, "mirror: {to: 2, concurrency: 1}", nil)
	seven, eight := backend.CorrelationID{Number: 7}, backend.CorrelationID{Number: 8}
	if _, err := add(t, e, seven, 1, backend.SequenceStart); err != nil {
		t.Fatal(err)
	}
	adds(t, e, eight, 1, 1) // there is no place for it: told once
	wantOutcomes(t, e, "map[dropped:1 equal:1]")
	if _, err := add(t, e, seven, 1, backend.SequenceStart); err != nil { // again
		t.Fatal(err)
	}
	wantOutcomes(t, e, "map[dropped:1 equal:2]")
	e.mirrors.mu.Lock()
	for _, of := range e.mirrors.sequences {
		for _, q := range of.open {
			q.idle = 0
		}
	}
	e.mirrors.mu.Unlock()
	if _, err := add(t, e, eight, 1, backend.SequenceStart); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, e, "map[dropped:1 equal:3]")
	for _, id := range []backend.CorrelationID{seven, eight} {
		if _, err := add(t, e, id, 1, backend.SequenceEnd); err != nil {
			t.Fatal(err)
		}
	}
	wantOutcomes(t, e, "map[dropped:1 equal:4]")
	if _, err := add(t, e, seven, 1, backend.SequenceStart|backend.SequenceEnd); err != nil {
		t.Fatal(err)
	}
	if err := e.Route(t.Context(), "a", []byte("mirror: {to: 2, concurrency: 2}")); err != nil {
		t.Fatal(err)
	}
	left := e.life.Find("a", 1)
	if _, err := add(t, e, eight, 1, backend.SequenceStart); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, e, "map[dropped:1 equal:6]")
	left.EndSequence(eight)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestMirrorOfManyAnswers: those of a decoupled model are compared one by one.
func TestMirrorOfManyAnswers(t *testing.T) {
	for _, c := range []struct {
		name       string
		first      string // what the version of the client answers, a letter for each answer
		second     string
		want, says string
	}{
		{"the same", "abc", "abc", "equal", ""},
		{"none", "", "", "equal", ""},
		{"another one", "abc", "abd", "different", "answer 3: output 'OUT': element 0 is 99 and 100"},
		{"too few", "abc", "ab", "different", "3 answers and 2"},
		{"no end", "ab", strings.Repeat("ab", 500), "different", "2 answers and more"},
		{"none at all", "ab", "", "different", "2 answers and 0"},
		{"a failure", "ab", "a!", "failed", "the copy failed: no"},
		{"a failure of the client's", "a!", "ab", "skipped", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			echo := &nesotest.Echo{Name: "echo", OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
				letters := c.first
				if cfg.Version == 2 {
					letters = c.second
				}
				for _, letter := range []byte(letters) {
					resp := &backend.Response{Outputs: []tensor.Tensor{{
						Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{letter},
					}}}
					if letter == '!' {
						resp = &backend.Response{Err: backend.Errorf(backend.Internal, "no")}
					}
					if b.Requests[0].Responder.Respond(resp, false) != nil {
						break // nobody wants more
					}
				}
				return true, b.Requests[0].Responder.Respond(nil, true)
			}}
			top := nesotest.Tree(t, map[string]string{
				"a/config.pbtxt": "backend: 'echo'\ninput { name: 'IN' data_type: TYPE_FP32 dims: [ -1 ] }\n" +
					"output { name: 'OUT' data_type: TYPE_UINT8 dims: [ 1 ] }\nmodel_transaction_policy { decoupled: true }\n" +
					"version_policy { all { } }\n",
				"a/1/": "", "a/2/": "", "a/rollout.yaml": "weights: {1: 1}\nmirror: {to: 2}\n",
			})
			e := server(t, explicit(top, "a"), echo)
			p, err := e.Resolve(t.Context(), "a", -1, 8)
			if err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			r := p.NewRequest(streamed(over))
			r.Inputs = []tensor.Tensor{input(2)}
			if err := e.Infer(r); err != nil {
				t.Fatal(err)
			}
			<-over
			if got := onlyOutcome(t, e); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if says := e.Routings()[0].Numbers.Difference; says != c.says {
				t.Errorf("says %q, want %q", says, c.says)
			}
			wantFree(t, e)
		})
	}
}

// streamed is the sink of a client that reads what comes, and wants none of it.
type streamed chan struct{}

func (s streamed) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	resp.Release()
	if final {
		close(s)
	}
}

func onlyOutcome(t *testing.T, e *Engine) string {
	t.Helper()
	for o := range outcomes(t, e, 1) {
		return o
	}
	return ""
}
