package grpcapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// Answers that wait on streams stand on the ledger; those for which there is no
// room become errors, and the others come whole.
func TestStreamAnswersAreCounted(t *testing.T) {
	const size, streams, each, room = 1 << 20, 3, 60, 64 << 20
	for _, model := range []string{"int32", "many"} {
		for _, end := range []string{"read", "gone"} {
			t.Run(model+" "+end, func(t *testing.T) {
				var given atomic.Int32
				f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
					respond := func(final bool) {
						_ = b.Requests[0].Respond(&backend.Response{Outputs: []tensor.Tensor{
							{Name: "OUT", Datatype: tensor.Int32, Shape: tensor.Shape{size / 4}, Data: make([]byte, size)},
						}}, final)
						given.Add(1)
					}
					if cfg.Decoupled {
						for range each {
							respond(false)
						}
						_ = b.Requests[0].Respond(nil, true)
					} else {
						respond(true)
					}
					return true, nil
				}}, Options{})
				l := f.engine.Ledger()
				full := l.Limit(ledger.Out) - room
				l.Take(ledger.Out, full)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var open []*clientStream
				for range streams {
					s := f.open(ctx)
					open = append(open, s)
					if model == "many" {
						send(t, s, request(model, "", 1))
						continue
					}
					for range each {
						if err := s.Send(request(model, "", 1)); err != nil {
							t.Fatal(err)
						}
					}
					if err := s.CloseSend(); err != nil {
						t.Fatal(err)
					}
				}
				// On a busy machine the transport's answers stand still long enough to give way,
				// and their streams end.
				cut := func() bool { return l.Cuts(ledger.Out, ledger.Stalled) > 0 }
				for begin := time.Now(); given.Load() < streams*each && !cut(); time.Sleep(time.Millisecond) {
					if time.Since(begin) > time.Minute {
						t.Fatalf("%d answers of %d are given", given.Load(), streams*each)
					}
				}
				if held := l.Held(ledger.Out) - full; held > room+streams<<20 || held < room/2 && !cut() {
					t.Errorf("%d bytes are counted, of %d that wait", held, streams*each*size)
				}
				if end == "gone" {
					cancel()
				} else {
					whole, refused := readAll(t, open, size, cut)
					// What the client's library takes while nobody reads makes room for others, some megabytes of them.
					if !cut() && (whole < room/size/2 || refused < (streams*each-room/size)/2 || whole+refused != streams*each) {
						t.Errorf("%d answers came, %d were refused", whole, refused)
					}
					if n := l.Cuts(ledger.Out, ledger.Full); n != uint64(refused) && !cut() {
						t.Errorf("%d refusals are counted, of %d", n, refused)
					}
				}
				for begin := time.Now(); l.Held(ledger.Out) != full; time.Sleep(time.Millisecond) {
					if time.Since(begin) > time.Minute {
						t.Fatalf("%d bytes are left on the ledger", l.Held(ledger.Out)-full)
					}
				}
				l.Give(ledger.Out, full)
			})
		}
	}
}

// Errors that wait on streams count, too: where there is no room for them either
// the stream ends, and nothing of it is left.
func TestStreamErrorsAreCounted(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	l := f.engine.Ledger()
	full := l.Limit(ledger.Out)
	l.Take(ledger.Out, full)
	ask := func(s *clientStream) (string, error) {
		if err := s.Send(&pb.ModelInferRequest{ModelName: "unknown", Id: strings.Repeat("i", 1000)}); err != nil {
			t.Fatal(err)
		}
		p, err := s.Recv()
		return p.GetErrorMessage(), err
	}
	s := f.open(t.Context())
	for range 3 {
		if text, err := ask(s); err != nil || !strings.Contains(text, "unknown model: 'unknown'") {
			t.Fatalf("in the reserve: %q, %v", text, err)
		}
	}
	small := 0
	for ok := true; ok; small++ {
		_, _, ok = l.TakeWhole(ledger.Out, ledger.Asker{}, 1000) // the page is full
	}
	text, err := ask(s)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "answers that are not read") {
		t.Errorf("got %q, %v", text, err)
	}
	other := f.open(t.Context())
	l.GiveWhole(ledger.OutReserve, ledger.Asker{}, int64(small-1)*1000)
	if text, err := ask(other); err != nil || text == "" {
		t.Errorf("another stream: %q, %v", text, err)
	}
	for begin := time.Now(); l.Held(ledger.OutReserve) != 0; time.Sleep(time.Millisecond) { // an answer is there before its sender knows
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d bytes are left in the reserve", l.Held(ledger.OutReserve))
		}
	}
	l.Give(ledger.Out, full)
}

// Where it is the bound of its key that ends a stream, its client is told of that
// one, and not of the server's.
func TestStreamsEndByTheBoundOfTheirKey(t *testing.T) {
	const secret, most = "neso_secret", 1 << 20
	keys, err := auth.Parse(fmt.Appendf(nil, `{"keys": [{"name": "k", "sha256": "%x", "queued_bytes": %d}]}`, sha256.Sum256([]byte(secret)),
		most))
	if err != nil {
		t.Fatal(err)
	}
	guard := auth.NewGuard(keys, nil)
	f := start(t, &nesotest.Echo{}, Options{Guard: guard})
	caller, refusal := guard.Admit("", secret, auth.Inference, "")
	if refusal != nil {
		t.Fatal(refusal)
	}
	l, by := f.engine.Ledger(), ledger.Asker{Key: caller.Share()}
	if _, _, ok := l.TakeWhole(ledger.Out, by, most); !ok {
		t.Fatal("there is no room for answers")
	}
	defer l.GiveWhole(ledger.Out, by, most)
	s := f.open(metadata.AppendToOutgoingContext(t.Context(), "x-api-key", secret))
	send(t, s, request("unknown", "", 1))
	_, err = s.Recv()
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "for one key beside others") ||
		strings.Contains(err.Error(), "max-queued") {
		t.Errorf("got %v", err)
	}
}

// readAll counts what is left to read on the streams: whole answers of size bytes
// and refusals of such. A stream may break off once the server has cut one.
func readAll(t *testing.T, streams []*clientStream, size int, cut func() bool) (whole, refused int) {
	t.Helper()
	for _, s := range streams {
		for {
			p, err := s.Recv()
			if errors.Is(err, io.EOF) || err != nil && cut() {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if raw := p.InferResponse.GetRawOutputContents(); len(raw) == 1 && len(raw[0]) == size {
				whole++
			} else if strings.HasPrefix(p.ErrorMessage, "an answer of 1048576 bytes is more than the server can keep") {
				refused++
			} else {
				t.Fatalf("got %q", p.ErrorMessage)
			}
		}
	}
	return whole, refused
}
