package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/nesoserve/neso/client/internal/events"
)

// GenerateStream asks a model for a stream of responses (generate_stream), a way to
// a decoupled model over HTTP. fields are its inputs by name, each a number, string,
// boolean or flat list, and further parameters. InferStream is the same with tensors.
//
// each is called with every response as it comes: a JSON object of the outputs,
// an output of one element as a bare value, others as flat lists; `id`,
// `model_name`, `model_version` and the response's parameters stand beside them.
// The stream ends with the first error of each, or that the server sends in
// place of a response (*Error).
func (c *Client) GenerateStream(ctx context.Context, model, version string, fields map[string]any,
	each func(response json.RawMessage) error,
) error {
	h, err := c.overHTTP("GenerateStream")
	if err != nil {
		return err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	path := modelPath(model, version) + "/generate_stream"
	return h.generateStream(ctx, kindOf(fields), path, nil, body, func(event json.RawMessage, fault *Error) error {
		if fault != nil {
			return fault
		}
		return each(bytes.Clone(event))
	})
}

// generateStream calls each with every event, or with the error in its place; an
// event is valid until each returns.
func (h *overHTTP) generateStream(ctx context.Context, k kind, path string, header http.Header, body []byte,
	each func(event json.RawMessage, fault *Error) error,
) error {
	var resp *http.Response
	err := h.c.Retry.attempt(ctx, k, func() (err error) {
		//nolint:bodyclose // below
		resp, err = h.send(ctx, http.MethodPost, path, header, [][]byte{body})
		return err
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for event, err := range events.Read(resp.Body, maxAnswer) {
		if err != nil {
			return err
		}
		event = bytes.TrimSpace(event)
		var fault *Error
		if text := eventError(event); text != "" {
			fault = &Error{Status: resp.StatusCode, Message: text}
		} else if !json.Valid(event) {
			return fmt.Errorf("the stream has an event that is no JSON: %.100q", event)
		}
		if err := each(event, fault); err != nil {
			return err
		}
	}
	return nil
}

// eventError returns the text of an event that is an error: an object of that
// member alone.
func eventError(event []byte) string {
	if !strings.HasPrefix(string(event), `{"error":`) {
		return ""
	}
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(event, &members) != nil || len(members) != 1 || json.Unmarshal(members["error"], &text) != nil {
		return ""
	}
	return text
}
