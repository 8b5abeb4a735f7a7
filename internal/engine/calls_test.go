package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// shown writes spans as a tree: "b(c failed)" for one of b that has called c.
func shown(s *infer.Spans) string {
	if s == nil {
		return ""
	}
	var all []string
	for _, one := range s.All {
		name := one.Model
		if one.Failed {
			name += " failed"
		}
		if one.Inside != nil {
			name += "(" + shown(one.Inside) + ")"
		}
		all = append(all, name)
	}
	if s.Left > 0 {
		all = append(all, fmt.Sprintf("%d more", s.Left))
	}
	return strings.Join(all, " ")
}

// calling is a backend whose models call others, as their names say.
type calling struct{ host backend.Host }

// call calls a model for some requests, and returns when it has answered.
func (c *calling) call(model string, requests ...*backend.Request) {
	to := &recorder{done: make(chan struct{})}
	q := call(model, to)
	for _, r := range requests {
		q.Caller.For = append(q.Caller.For, r.Calls)
	}
	if err := c.host.Infer(q); err != nil {
		return // there is no such model
	}
	<-to.done
	for _, r := range to.responses {
		r.Release()
	}
}

func (c *calling) execute(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
	switch r := b.Requests[0]; cfg.Name {
	case "two":
		c.call("inner", r)
		c.call("leaf", r)
		c.call("nobody", r)
	case "inner":
		c.call("leaf", r)
		c.call("fails", r)
	case "fails":
		return false, errors.New("not today")
	case "many":
		for range 70 {
			c.call("leaf", r)
		}
	case "silent":
		c.call("leaf") // and does not say for whom
	}
	return false, nil
}

// answered sends a request to a model and returns it when it has been answered.
func answered(t *testing.T, e *Engine, model string) *infer.Request {
	t.Helper()
	p, err := e.Resolve(t.Context(), model, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	to := infer.NewSingle()
	r := p.NewRequest(to)
	r.Inputs = []tensor.Tensor{input(2)}
	r.Times.Start = backend.Now()
	if err := e.Infer(r); err != nil {
		t.Fatal(err)
	}
	resp, failed := to.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	resp.Release()
	return r
}

// TestCallsStandWithTheRequestTheyAreFor: what a model calls for a request is seen with that, nested calls within, of many as many as
// there is room for, and nothing of it once the request has ended, or where nobody looks.
func TestCallsStandWithTheRequestTheyAreFor(t *testing.T) {
	c := &calling{}
	echo := &nesotest.Echo{
		Name: "echo", OnExecute: c.execute,
		OnOpen: func(h backend.Host, _ backend.Settings) error { c.host = h; return nil },
	}
	files, names := map[string]string{}, []string{"two", "inner", "leaf", "fails", "many", "silent"}
	for _, name := range names {
		files[name+"/config.pbtxt"], files[name+"/1/"] = echoConfig, ""
	}
	e := server(t, explicit(nesotest.Tree(t, files), names...), echo)
	if r := answered(t, e, "two"); r.Spans != nil || r.Calls != nil {
		t.Errorf("kept while nobody looks: %s", shown(r.Spans))
	}
	defer e.Recent().Watch()()
	for model, want := range map[string]string{
		"two": "inner(leaf fails failed) leaf", "many": strings.Repeat("leaf ", 64) + "6 more", "silent": "", "leaf": "",
	} {
		r := answered(t, e, model)
		c.call("leaf", &r.Request) // too late
		if got := shown(r.Spans); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
		begin := r.Times.Start
		for _, s := range r.Spans.All {
			if s.Start < begin || s.End < s.Start || r.Times.End < s.End {
				t.Errorf("%s: a call from %d to %d, want it within %d and %d", model, s.Start, s.End, begin, r.Times.End)
			}
			begin = s.End
		}
	}
}
