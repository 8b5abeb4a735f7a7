package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/tensor"
)

// Names are those of the inputs and outputs of a graph. Those of keys and values, in this order,
// have a %d for the layer.
type Names struct {
	Tokens, Mask, Positions, Logits string
	Past, Present                   [2]string
}

// Form is what is known of a network beside its graph, in which the model builder leaves some of it
// open.
type Form struct {
	Layers, Vocabulary, Context int
	Heads, Head                 int   // of keys and values, and the size of one
	First                       int32 // a token that a text may begin with
}

// layout says where a graph takes tokens, and where it leaves keys and values.
type layout struct {
	// Locations among the inputs; positions is -1 for a graph that counts itself.
	tokens, mask, positions int
	logits                  int // place among the outputs
	scores                  tensor.Datatype
	stores                  []store // perLayer of each layer
}

// perLayer is how many stores a layer has: its keys and its values.
const perLayer = 2

// store is the memory of the keys, or the values, of one layer.
type store struct {
	past, present int // places among inputs and outputs
	heads, head   int64
	datatype      tensor.Datatype
	memory        *onnxruntime.Value
	room          Room // of memory; there may be more of it than the network has, where that of another layer could not grow
}

// token is how many bytes one token of one head has.
func (s *store) token() int { return int(s.head) * s.datatype.Size() }

// row is how many bytes a text of a length has.
func (s *store) row(length int) int { return int(s.heads) * length * s.token() }

// plan finds the inputs and outputs of a graph. The error says what of it is of another kind.
func (n *Names) plan(g *onnxruntime.Graph, f Form) (*layout, error) {
	l := &layout{tokens: -1, mask: -1, positions: -1, logits: -1}
	byName := map[string]int{}
	for i, t := range g.Inputs {
		whole := (t.Datatype == tensor.Int64 || t.Datatype == tensor.Int32) && len(t.Shape) == 2
		switch {
		case t.Name == n.Tokens && whole:
			l.tokens = i
		case t.Name == n.Mask && whole:
			l.mask = i
		case t.Name == n.Positions && whole:
			l.positions = i
		default:
			byName[t.Name] = i
		}
	}
	for i, t := range g.Outputs {
		if t.Name == n.Logits && (t.Datatype == tensor.FP32 || t.Datatype == tensor.FP16) && len(t.Shape) == 3 {
			l.logits, l.scores = i, t.Datatype
		}
	}
	if l.tokens < 0 || l.mask < 0 || l.logits < 0 {
		return nil, fmt.Errorf("the graph has not '%s', '%s' and, of FP32 or FP16, '%s'", n.Tokens, n.Mask, n.Logits)
	}
	for layer := range f.Layers {
		for kind := range n.Past {
			past, present := Numbered(n.Past[kind], layer), Numbered(n.Present[kind], layer)
			at, ok := byName[past]
			delete(byName, past)
			to := slices.IndexFunc(g.Outputs, func(t onnxruntime.GraphTensor) bool { return t.Name == present })
			if !ok || to < 0 {
				return nil, fmt.Errorf("the graph has no '%s' or no '%s'", past, present)
			}
			t := g.Inputs[at]
			if len(t.Shape) != 4 || t.Shape[2] >= 0 || t.Datatype.Size() == 0 || t.Datatype == tensor.Bytes || g.Outputs[to].Datatype != t.Datatype {
				return nil, fmt.Errorf("'%s' is of %s%v", past, t.Datatype, t.Shape)
			}
			heads, head := known(t.Shape[1], f.Heads), known(t.Shape[3], f.Head)
			if heads < 1 || head < 1 {
				return nil, fmt.Errorf("'%s' is of %s%v, and the configuration says %d heads of %d", past, t.Datatype, t.Shape, f.Heads, f.Head)
			}
			l.stores = append(l.stores, store{past: at, present: to, heads: heads, head: head, datatype: t.Datatype})
		}
	}
	for name := range byName {
		return nil, fmt.Errorf("the graph has an input '%s'", name)
	}
	if len(g.Outputs) != len(l.stores)+1 {
		return nil, fmt.Errorf("the graph has %d outputs, expected %d", len(g.Outputs), len(l.stores)+1)
	}
	return l, nil
}

// known is the size of a dimension of the graph, or what else says it.
func known(dimension int64, otherwise int) int64 {
	if dimension >= 0 {
		return dimension
	}
	return int64(otherwise)
}

// Numbered is the name of a layer's tensor.
func Numbered(name string, layer int) string {
	return strings.Replace(name, "%d", fmt.Sprint(layer), 1)
}
