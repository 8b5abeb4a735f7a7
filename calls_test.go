package neso_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/tensor"
)

// TestCallsOfAFunction: what a function asks other models with its context stands in the time line of its request on the dashboard, also
// with a context made of it, and nothing does that it asks with another one.
func TestCallsOfAFunction(t *testing.T) {
	s := &neso.Server{NoRepository: true, Metrics: neso.Metrics{Address: "127.0.0.1:0"}}
	outer := doubleModel
	outer.Name = "outer"
	type mine struct{}
	for _, b := range []struct {
		model neso.Model
		f     neso.Func
	}{
		{doubleModel, double},
		{outer, func(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
			made, cancel := context.WithCancel(context.WithValue(ctx, mine{}, 1))
			defer cancel()
			for _, with := range []context.Context{ctx, made, context.Background()} {
				resp, err := s.Infer(with, neso.Request{Model: "double", Inputs: inputs})
				if err != nil {
					return nil, err
				}
				resp.Release()
			}
			return double(ctx, inputs)
		}},
	} {
		if err := s.Bind(b.model, b.f); err != nil {
			t.Fatal(err)
		}
	}
	start(t, s)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addresses()["metrics"]+"/dashboard/feed", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Neso-Dashboard", "1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	feed, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Body.Close()
	type step struct {
		Model      string
		From, Took float64
		Steps      []step
	}
	lines := bufio.NewScanner(feed.Body)
	lines.Buffer(nil, 1<<20)
	for sent := false; lines.Scan(); sent = true {
		if !sent { // the first line says that it is looked at
			x := tensor.Tensor{Name: "x", Datatype: tensor.Int32, Shape: tensor.Shape{1, 1}, Data: make([]byte, 4)}
			resp, err := s.Infer(t.Context(), neso.Request{Model: "outer", Inputs: []tensor.Tensor{x}})
			if err != nil {
				t.Fatal(err)
			}
			resp.Release()
		}
		var l struct {
			Slow []struct {
				Model string
				Took  float64
				Steps []step
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		for _, one := range l.Slow {
			if one.Model != "outer" {
				continue
			}
			if len(one.Steps) != 2 || one.Steps[0].Model != "double" || one.Steps[0].From+one.Steps[0].Took > one.Steps[1].From+1e-3 {
				t.Errorf("got %s", lines.Text())
			}
			return
		}
	}
	t.Fatalf("the request is not there: %v", lines.Err())
}
