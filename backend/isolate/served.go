package isolate

import (
	"bytes"
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// attach has the requests of a decoupled model come one by one; they are answered when the
// backend likes, also after Execute.
func (g *handler) attach(i *initBody) error {
	return g.guest.Attach(0, guest.Served{
		Tables: wire.Tables{Inputs: i.Inputs, Outputs: i.Outputs}, Decoupled: true, Window: i.Window, InlineLimit: segment.DefaultInlineLimit,
		Execute: g.serve,
	})
}

// serve runs a batch of requests.
func (g *handler) serve(batch []*guest.Request) error {
	b := &backend.Batch{Size: len(batch)}
	for _, r := range batch {
		for k, inline := range r.Inline {
			if inline { // the frame is gone when Execute has returned
				r.Inputs[k].Data = bytes.Clone(r.Inputs[k].Data)
			}
		}
		r.Ctx, r.Responder = context.Background(), &served{guest: g.guest, request: r}
		b.Requests = append(b.Requests, &r.Request)
	}
	return g.instance.Execute(context.Background(), b)
}

// served is the server's end of a request, as the backend sees it.
type served struct {
	guest   *guest.Guest
	request *guest.Request
}

// Respond implements backend.Responder. It waits while the client does not take what was sent.
func (s *served) Respond(resp *backend.Response, final bool) error {
	a, err := s.answer(resp)
	resp.Release()
	if err != nil {
		a = &guest.Answer{Err: backend.AsError(err)}
	}
	if final {
		_ = s.request.Release() // nothing reads the inputs any more; a broken channel is the reader's to tell
	}
	return s.request.Answer(a, final)
}

// answer copies a response to where the server reads it.
func (s *served) answer(resp *backend.Response) (*guest.Answer, error) {
	if resp == nil {
		return nil, nil
	}
	a := &guest.Answer{Parameters: resp.Parameters, Err: resp.Err}
	if resp.Err != nil {
		return a, nil
	}
	for i := range resp.Outputs {
		t := resp.Outputs[i]
		block, err := s.guest.Allocate(len(t.Data), segment.DefaultInlineLimit)
		if err != nil {
			a.Drop()
			return nil, err
		}
		copy(block.Data(), t.Data)
		t.Data, t.Buffer = block.Data(), nil
		a.Outputs = append(a.Outputs, guest.Output{Tensor: t, Block: block})
	}
	return a, nil
}

// Cancelled implements backend.Responder.
func (s *served) Cancelled() bool { return s.request.Cancelled() }
