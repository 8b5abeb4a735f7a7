package engine

import (
	"context"
	"fmt"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/rollout"
)

// comparison is the sink of a copy: it compares its answers, one by one as they come,
// with those that the client got, and keeps none.
type comparison struct {
	s      *requestCopy
	enough context.CancelFunc // ends the copy
	done   chan struct{}

	seen    int
	outcome rollout.Outcome
	what    string // the first difference
	failure *backend.Error
}

// Deliver implements infer.Sink.
func (c *comparison) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	if resp != nil {
		c.take(resp)
		resp.Release()
	}
	if final {
		close(c.done)
	}
}

func (c *comparison) take(resp *backend.Response) {
	if resp.Err != nil {
		if c.failure == nil {
			c.failure = resp.Err
		}
		return
	}
	c.seen++
	if c.seen > len(c.s.answers) {
		c.enough() // it may have no end
		return
	}
	o, what := rollout.Compare(c.s.answers[c.seen-1], resp.Outputs, c.s.route.Plan.Rules.Mirror.Tolerance)
	if c.what == "" && what != "" {
		if c.what = what; len(c.s.answers) > 1 {
			c.what = fmt.Sprintf("answer %d: %s", c.seen, what)
		}
	}
	c.outcome = max(c.outcome, o)
}

// result is what has become of the copy, once it is done.
func (c *comparison) result() (rollout.Outcome, string) {
	wanted := len(c.s.answers)
	switch {
	case c.seen > wanted:
		return rollout.Different, otherwise(c.what, fmt.Sprintf("%d answers and more", wanted))
	case c.failure != nil:
		return rollout.Failed, "the copy failed: " + c.failure.Message
	case c.seen < wanted:
		return rollout.Different, otherwise(c.what, fmt.Sprintf("%d answers and %d", wanted, c.seen))
	}
	return c.outcome, c.what
}

func otherwise(first, then string) string {
	if first != "" {
		return first
	}
	return then
}
