package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// InferStream sends a request and ranges over its responses as they come: any
// number of a decoupled model, one of others. An error of the server in place of a
// response is an *Error; the range goes on behind it if there is more. Any other error
// is the last. To leave the range cancels the request.
//
// Over HTTP it uses generate_stream, which has only JSON: tensors of FP16 and BF16
// and shared memory cannot be used there, inputs must have the shape that the server
// makes of a flat list (else it is an error), and the shapes of outputs are those of the metadata.
func (c *Client) InferStream(ctx context.Context, q *Request) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		t, err := c.transport()
		if err == nil {
			err = q.check()
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false
		err = t.stream(ctx, q, func(r *Response, err error) bool {
			left = !yield(r, err)
			return !left
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// Stream is a bidirectional stream of requests and responses, of gRPC only. One
// goroutine may send while another receives. It must be closed.
type Stream struct {
	calls  grpcStream
	cancel context.CancelFunc
}

// grpcStream is what Stream needs of the library.
type grpcStream interface {
	send(q *Request) error
	closeSend() error
	receive() (*Response, error)
}

// Stream opens a stream, for many requests to any models in order: those of a
// sequence, or those of a decoupled model, whose responses come as they are ready and
// say by Response.ID to which request they belong. ctx is that of the whole stream.
func (c *Client) Stream(ctx context.Context) (*Stream, error) {
	t, err := c.transport()
	if err != nil {
		return nil, err
	}
	g, ok := t.(*overGRPC)
	if !ok {
		return nil, fmt.Errorf("%s: a stream of several requests needs gRPC; InferStream has one of responses", c.URL)
	}
	ctx, cancel := context.WithCancel(ctx)
	calls, err := g.open(ctx, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Stream{calls: calls, cancel: cancel}, nil
}

// Send sends a request; it returns when what sends has room for it, before there is
// an answer. io.EOF says that the stream has ended, and Receive why.
func (s *Stream) Send(q *Request) error {
	if err := q.check(); err != nil {
		return err
	}
	return s.calls.send(q)
}

// CloseSend says that no further requests come. The stream ends, with io.EOF of
// Receive, when all are answered.
func (s *Stream) CloseSend() error { return s.calls.closeSend() }

// Receive returns the next response. An *Error of Status 200 belongs to one request
// (RequestID, where the server says it); any other error ends the stream, io.EOF when
// all is answered after CloseSend.
func (s *Stream) Receive() (*Response, error) { return s.calls.receive() }

// Responses ranges over the responses. Behind an error of one request, see Receive, it
// goes on; any other error is the last. It ends when all is answered after CloseSend.
func (s *Stream) Responses() iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		for {
			r, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(r, err) || err != nil && !goesOn(err) {
				return
			}
		}
	}
}

// goesOn reports whether an error of a stream is that of one request.
func goesOn(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status == http.StatusOK
}

// Close ends the stream, and the requests that are not answered.
func (s *Stream) Close() error {
	s.cancel()
	return nil
}

// Generate asks a model for one response (generate), of HTTP only. fields and the
// response are as those of GenerateStream.
func (c *Client) Generate(ctx context.Context, model, version string, fields map[string]any) (json.RawMessage, error) {
	h, err := c.overHTTP("Generate")
	if err != nil {
		return nil, err
	}
	var text json.RawMessage
	err = c.Retry.attempt(ctx, kindOf(fields), func() error {
		text, err = h.call(ctx, http.MethodPost, modelPath(model, version)+"/generate", fields)
		return err
	})
	if err != nil {
		return nil, err
	}
	if fault := eventError(text); fault != "" { // with status 200, since it was found late
		return nil, &Error{Status: http.StatusOK, Message: fault}
	}
	return text, nil
}

// Generated is GenerateStream as a range. It ends with the first error.
func (c *Client) Generated(ctx context.Context, model, version string, fields map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		left := false
		err := c.GenerateStream(ctx, model, version, fields, func(response json.RawMessage) error {
			if left = !yield(response, nil); left {
				return errLeft
			}
			return nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

var errLeft = errors.New("the range was left")
