package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// GenerateStream asks a model for a stream of responses (generate_stream), the
// way to a decoupled model over HTTP. fields are its inputs by name, each a
// number, string, boolean or flat list, and further parameters.
//
// each is called with every response as it comes: a JSON object of the outputs,
// an output of one element as a bare value, others as flat lists; `id`,
// `model_name`, `model_version` and the response's parameters stand beside them.
// The stream ends with the first error of each, or that the server sends in
// place of a response (*Error).
func (c *Client) GenerateStream(ctx context.Context, model, version string, fields map[string]any,
	each func(response json.RawMessage) error,
) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, http.MethodPost, modelPath(model, version)+"/generate_stream", nil, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		event, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // the empty line between events
		}
		event = bytes.TrimSpace(event)
		if fault := eventError(event); fault != "" {
			return &Error{Status: resp.StatusCode, Message: fault}
		}
		if !json.Valid(event) {
			return fmt.Errorf("the stream has an event that is no JSON: %.100q", event)
		}
		if err := each(bytes.Clone(event)); err != nil {
			return err
		}
	}
	return lines.Err()
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
