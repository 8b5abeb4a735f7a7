package hostcalls

import (
	"context"
	"encoding/json"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Metric serves METRIC.
func (c *Calls) Metric(h wire.Header, body []byte) error {
	var b wire.MetricBody
	if err := json.Unmarshal(body, &b); err != nil {
		return &wire.ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
	}
	if c.w.Host == nil {
		return c.Refuse(h.ID)
	}
	value, err := c.metrics.Do(c.w.Host, &b)
	return c.w.Reply(h.ID, value, err)
}

// Activity serves ACTIVITY, which has no answer.
func (c *Calls) Activity(trace, name string, at int64) {
	if c.w.Host != nil {
		c.w.Host.Activity(trace, name, at)
	}
}

// Control serves CONTROL. Operations that it does not know are for other.
func (c *Calls) Control(ctx context.Context, h wire.Header, body []byte, other func(b *wire.ControlBody) error) error {
	var b wire.ControlBody
	if err := json.Unmarshal(body, &b); err != nil {
		return &wire.ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
	}
	host := c.w.Host
	if host == nil {
		return c.Refuse(h.ID)
	}
	var f func() error
	switch b.Op {
	case "is_ready":
		return c.w.Reply(h.ID, map[string]bool{"ready": host.Ready(b.Model, b.Version)}, nil)
	case "document":
		if b.Question == nil {
			return &wire.ProtocolError{Kind: h.Kind, Field: "question", Detail: "is not there"}
		}
		answer := func() (any, error) {
			text, err := host.Document(*b.Question)
			return map[string]json.RawMessage{"document": text}, err
		}
		if b.Question.About == backend.AboutService { // as quick as is_ready, and asked before each request
			value, err := answer()
			return c.w.Reply(h.ID, value, err)
		}
		return c.Run(h.ID, answer)
	case "load":
		f = func() error { return host.Load(ctx, b.Model, b.Config, b.Files) }
	case "unload":
		f = func() error { return host.Unload(ctx, b.Model, b.Dependents) }
	default:
		return other(&b)
	}
	return c.Run(h.ID, func() (any, error) { return nil, f() })
}
