package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"google.golang.org/grpc"
)

// grpcCalls is one ModelStreamInfer.
type grpcCalls struct {
	g      *overGRPC
	ctx    context.Context //nolint:containedctx // that of the stream, to tell its end from others
	stream grpc.ClientStream
	answer answer

	mu sync.Mutex
	// regions are those that the last request with such an output sent it to: it has no
	// bytes in the answer then.
	regions map[string]Region
}

var streamDesc = &grpc.StreamDesc{StreamName: "ModelStreamInfer", ServerStreams: true, ClientStreams: true}

// open opens a stream with headers of its own. It ends with ctx.
func (g *overGRPC) open(ctx context.Context, own http.Header) (*grpcCalls, error) {
	s := &grpcCalls{g: g, ctx: ctx}
	err := g.c.Retry.attempt(ctx, unsentOnly, func() (err error) {
		with, err := g.with(ctx, own)
		if err != nil {
			return err
		}
		s.stream, err = g.conn().NewStream(with, streamDesc, service+streamDesc.StreamName,
			grpc.Peer(&s.answer.peer), grpc.Header(&s.answer.header), grpc.Trailer(&s.answer.trailer))
		if err != nil {
			err = g.failed(ctx, err, &s.answer)
		}
		return err
	})
	return s, err
}

func (s *grpcCalls) send(q *Request) error {
	m, err := encodeProto(q)
	if err != nil {
		return err
	}
	if len(q.OutputRegions) > 0 {
		s.mu.Lock()
		regions := maps.Clone(s.regions) // the old one may be in use
		if regions == nil {
			regions = map[string]Region{}
		}
		maps.Copy(regions, q.OutputRegions)
		s.regions = regions
		s.mu.Unlock()
	}
	err = s.stream.SendMsg(&m)
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.g.failed(s.ctx, err, &s.answer)
	}
	return err
}

func (s *grpcCalls) closeSend() error { return s.stream.CloseSend() }

func (s *grpcCalls) receive() (*Response, error) {
	m := received{streamed: true}
	err := s.stream.RecvMsg(&m)
	if err == io.EOF { //nolint:errorlint // the library's word for the end
		return nil, io.EOF
	}
	if err != nil {
		return nil, s.g.failed(s.ctx, err, &s.answer)
	}
	s.mu.Lock()
	regions := s.regions
	s.mu.Unlock()
	r, err := decodeStreamed(m.b, regions)
	if err != nil && !goesOn(err) {
		return nil, fmt.Errorf("a response of %s: %w", s.g.c.URL, err)
	}
	return r, err
}

// stream is a ModelStreamInfer of one request.
func (g *overGRPC) stream(ctx context.Context, q *Request, yield func(*Response, error) bool) error {
	s, err := g.open(ctx, q.Header)
	if err != nil {
		return err
	}
	if err := s.send(q); err != nil && !errors.Is(err, io.EOF) { // EOF: what ended it is told below
		return err
	}
	if err := s.closeSend(); err != nil {
		return err
	}
	for {
		r, err := s.receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !goesOn(err):
			return err
		case !yield(r, err):
			return nil
		}
	}
}
