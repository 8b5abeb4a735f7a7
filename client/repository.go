package client

import (
	"context"
	"encoding/json"
)

// IndexEntry is one version of a model in the server's repository. Version and
// State are empty for a model that was never loaded.
type IndexEntry struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Index lists the models of the repository; with ready only those that are ready.
func (c *Client) Index(ctx context.Context, ready bool) ([]IndexEntry, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) ([]IndexEntry, error) { return t.index(ctx, ready) })
}

// Override replaces what the repository says of a model that is loaded.
type Override struct {
	// Config is the configuration as JSON.
	Config string
	// Files are the model's files by path below its directory, such as
	// "1/model.py"; they need Config.
	Files map[string][]byte
}

// Load loads or reloads a model and returns when it is ready. o may be nil.
func (c *Client) Load(ctx context.Context, model string, o *Override) error {
	if o == nil {
		o = &Override{}
	}
	return c.do(ctx, func(t transport) error { return t.load(ctx, model, o) })
}

// Unload unloads a model; with dependents also the models an ensemble is made of.
// It returns before the model is gone.
func (c *Client) Unload(ctx context.Context, model string, dependents bool) error {
	return c.do(ctx, func(t transport) error { return t.unload(ctx, model, dependents) })
}

// Rollout returns the rules for the versions of a model, and what has happened under
// them, as JSON.
func (c *Client) Rollout(ctx context.Context, model string) (json.RawMessage, error) {
	return c.rollout(ctx, model, nil)
}

// SetRollout changes the rules for the versions of a model, all at once, and returns
// what Rollout does. change is JSON: a section that it lacks stays as it is, and null
// takes one away.
func (c *Client) SetRollout(ctx context.Context, model string, change json.RawMessage) (json.RawMessage, error) {
	return c.rollout(ctx, model, change)
}

func (c *Client) rollout(ctx context.Context, model string, change json.RawMessage) (json.RawMessage, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.rollout(ctx, model, change)
	})
}

// LogSettings changes the settings named in change, none if it is empty, and
// returns all of them as JSON.
func (c *Client) LogSettings(ctx context.Context, change map[string]any) (json.RawMessage, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.logSettings(ctx, change)
	})
}

// TraceSettings changes the trace settings named in change of a model, or of
// the server for model "", and returns all of them as JSON. A value is a string, or
// a list of strings for trace_level; a nil value clears a setting.
func (c *Client) TraceSettings(ctx context.Context, model string, change map[string]any) (json.RawMessage, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.traceSettings(ctx, model, change)
	})
}
