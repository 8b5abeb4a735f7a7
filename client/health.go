package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Ready reports whether the server is ready. An error says that this could not be
// found out: no connection, no permission.
func (c *Client) Ready(ctx context.Context) (bool, error) {
	return call(ctx, c, unsentOnly, transport.ready)
}

// Live reports whether the server answers requests at all.
func (c *Client) Live(ctx context.Context) (bool, error) {
	return call(ctx, c, unsentOnly, transport.live)
}

// ModelReady reports whether a model is ready; version "" means any.
func (c *Client) ModelReady(ctx context.Context, model, version string) (bool, error) {
	return call(ctx, c, unsentOnly, func(t transport, ctx context.Context) (bool, error) { return t.modelReady(ctx, model, version) })
}

// call asks the server, and again where that may help.
func call[T any](ctx context.Context, c *Client, k kind, ask func(transport, context.Context) (T, error)) (result T, err error) {
	t, err := c.transport()
	if err != nil {
		return result, err
	}
	err = c.Retry.attempt(ctx, k, func() (err error) {
		result, err = ask(t, ctx)
		return err
	})
	return result, err
}

// do is call without a result.
func (c *Client) do(ctx context.Context, ask func(t transport) error) error {
	_, err := call(ctx, c, control, func(t transport, _ context.Context) (struct{}, error) { return struct{}{}, ask(t) })
	return err
}

// Readiness says what is ready and, where something is not, why.
type Readiness struct {
	Ready bool `json:"ready"`
	// State of the server: INITIALIZING, READY, EXITING or FAILED.
	State string `json:"state"`
	// Reason is what keeps the server from being ready.
	Reason string           `json:"reason"`
	Models []ModelReadiness `json:"models"`
}

// ModelReadiness is one version of a model, "" for a model without versions.
type ModelReadiness struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// State is that of the index; Ready says whether the version serves at present.
	State  string `json:"state"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"`
}

// Readiness is Ready with the reasons, for the server and each model. With keys it
// needs the scope read or manage. A server that does not know the question, such as
// Triton, is an error, and so is a client over gRPC, which has no such call.
func (c *Client) Readiness(ctx context.Context) (*Readiness, error) {
	h, err := c.overHTTP("Readiness")
	if err != nil {
		return nil, err
	}
	text, err := h.call(ctx, http.MethodGet, "/v2/health/ready?verbose", nil)
	if answer, ok := errors.AsType[*Error](err); ok && notReady(answer) {
		text = json.RawMessage(answer.Message) // the same answer, with the status of one that is not ready
	} else if err != nil {
		return nil, err
	}
	r := &Readiness{}
	if json.Unmarshal(text, r) != nil {
		if err == nil {
			err = errors.New("the server does not say what is ready and why not")
		}
		return nil, err
	}
	return r, nil
}

// notReady reports whether an answer to a question for readiness says no.
func notReady(answer *Error) bool {
	return answer.Status == http.StatusBadRequest || answer.Status == http.StatusServiceUnavailable
}
