package responsecache

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// asked is a request with its subject.
type asked struct {
	subject Subject
	request backend.Request
}

func ordinary() *asked {
	return &asked{
		Subject{Identity: Identity{1}, Name: "m", Version: 1, Wanted: []bool{true, true}, Order: []int{0, 1}},
		backend.Request{Inputs: []tensor.Tensor{
			{Name: "A", Datatype: tensor.FP32, Shape: tensor.Shape{1, 2}, Data: []byte("12345678")},
			{Name: "B", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: tensor.AppendElement(nil, "text")},
		}},
	}
}

func (a *asked) key() Key { return NewKey(&a.subject, &a.request) }

// TestWhatMakesRequestsDifferent: any two of these have different keys.
func TestWhatMakesRequestsDifferent(t *testing.T) {
	seen := map[Key]string{ordinary().key(): "ordinary"}
	for name, change := range map[string]func(*asked){
		"model":              func(a *asked) { a.subject.Name = "n" },
		"version":            func(a *asked) { a.subject.Version = 2 },
		"load":               func(a *asked) { a.subject.Identity = Identity{2} },
		"outputs":            func(a *asked) { a.subject.Wanted = []bool{true, false} },
		"other outputs":      func(a *asked) { a.subject.Wanted = []bool{false, true} },
		"bytes":              func(a *asked) { a.request.Inputs[0].Data = []byte("12345679") },
		"shape":              func(a *asked) { a.request.Inputs[0].Shape = tensor.Shape{2, 1} },
		"rank":               func(a *asked) { a.request.Inputs[0].Shape = tensor.Shape{2} },
		"datatype":           func(a *asked) { a.request.Inputs[0].Datatype = tensor.Int32 },
		"input's name":       func(a *asked) { a.request.Inputs[0].Name = "C" },
		"swapped names":      func(a *asked) { a.request.Inputs[0].Name, a.request.Inputs[1].Name = "B", "A" },
		"an input less":      func(a *asked) { a.subject.Order = []int{0} },
		"another input less": func(a *asked) { a.subject.Order = []int{1} },
		"parameter":          func(a *asked) { a.request.Parameters = []backend.Parameter{backend.Int("p", 1)} },
		"parameter's kind":   func(a *asked) { a.request.Parameters = []backend.Parameter{backend.Uint("p", 1)} },
		"parameter's value":  func(a *asked) { a.request.Parameters = []backend.Parameter{backend.Int("p", 2)} },
		"text":               func(a *asked) { a.request.Parameters = []backend.Parameter{backend.String("p", "1")} },
		"moved boundary":     func(a *asked) { a.request.Parameters = []backend.Parameter{backend.String("p1", "")} },
		"correlation":        func(a *asked) { a.request.Correlation.Number = 1 },
		"text correlation":   func(a *asked) { a.request.Correlation.Text = "1" },
		"flags":              func(a *asked) { a.request.Flags = backend.SequenceStart },
		"large":              func(a *asked) { a.request.Inputs[0].Data = make([]byte, small+1) },
		"larger":             func(a *asked) { a.request.Inputs[0].Data = make([]byte, small+2) },
	} {
		a := ordinary()
		change(a)
		k := a.key()
		if other := seen[k]; other != "" {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
		if a.key() != k {
			t.Errorf("%s: two keys for one request", name)
		}
	}
}

func TestWhatMakesNoDifference(t *testing.T) {
	for name, change := range map[string]func(*asked){
		"id":       func(a *asked) { a.request.ID = "x" },
		"priority": func(a *asked) { a.request.Priority = 3 },
		"timeout":  func(a *asked) { a.request.Timeout = 3 },
		"order": func(a *asked) {
			a.request.Inputs[0], a.request.Inputs[1] = a.request.Inputs[1], a.request.Inputs[0]
			a.subject.Order = []int{1, 0}
		},
	} {
		a := ordinary()
		change(a)
		if a.key() != ordinary().key() {
			t.Errorf("another %s makes another key", name)
		}
	}
}

// TestKeyIsStable: servers of different builds share a store, so a change here
// needs another keyVersion.
func TestKeyIsStable(t *testing.T) {
	const want = "d820461a9b3094d1a6dfc40a598866d3a7a605f1423a55c7550451b77803d176"
	if got := ordinary().key().String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkKey(b *testing.B) {
	for _, size := range []int{64, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			a := ordinary()
			a.request.Inputs[0].Data = bytes.Repeat([]byte{1}, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				a.key()
			}
		})
	}
}
