// Package step runs the network of a language model, one step at a time, over texts that lie side
// by side in one cache of keys and values. Open network.go first. layout.go says which graphs are
// fit for it, room.go how large the cache is.
package step

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/tensor"
)

// Network is one that is run over texts with a length each: attention of the model builder's kind
// (GroupQueryAttention, over memory that holds past and present) counts the ones of each text's
// mask. Texts have the places from 0 on, without a gap. It is of one goroutine.
type Network struct {
	*layout
	graph      *onnxruntime.Graph
	vocabulary int
	room       Room

	inputs, outputs []*onnxruntime.Value
	// What the last step looked at, for the next one.
	from, rows int
	views      []*onnxruntime.Value
	last       *onnxruntime.Value // the logits of rows tokens
	wide       []float32          // those of a network of 16 bits
	ints       [3][]byte          // tokens, mask, positions
	pins       runtime.Pinner
}

// New takes a graph over. The error says why texts cannot be computed side by side in it; then the
// graph is closed.
func New(g *onnxruntime.Graph, names Names, f Form) (*Network, error) {
	l, err := names.plan(g, f)
	if err != nil {
		g.Close()
		return nil, err
	}
	n := &Network{
		layout: l, graph: g, vocabulary: f.Vocabulary, inputs: make([]*onnxruntime.Value, len(g.Inputs)),
		outputs: make([]*onnxruntime.Value, len(g.Outputs)),
	}
	if err := n.check(f.Context, f.First); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Vocabulary is how many logits there are of a token.
func (n *Network) Vocabulary() int { return n.vocabulary }

// Room is how large the cache is.
func (n *Network) Room() Room { return n.room }

// Part is how many tokens of a prompt are best read at once: of their logits, which may be large,
// only the last ones are of use.
func (n *Network) Part() int {
	const bytes = 64 << 20
	return max(16, min(512, bytes/4/n.vocabulary))
}

// PerToken is how many bytes of keys and values a token has.
func (n *Network) PerToken() (bytes int64) {
	for i := range n.stores {
		bytes += int64(n.stores[i].row(1))
	}
	return bytes
}

// Reserve makes the cache as large as r, and keeps what the texts there have, of the given
// lengths. When it fails they have all that they had, and there is room for no more than before.
func (n *Network) Reserve(r Room, lengths []int) error {
	if r == n.room {
		return nil
	}
	n.forget()
	if len(lengths) == 0 {
		n.Clear() // so that there is never more than what is needed
	}
	for i := 0; i < len(n.stores); i += perLayer {
		if err := n.grow(n.stores[i:i+perLayer], r, lengths); err != nil {
			n.room = n.common()
			return err
		}
	}
	n.room = r
	return nil
}

// grow makes the memory of one layer, whose keys have to have as much room as its values.
func (n *Network) grow(layer []store, r Room, lengths []int) error {
	if layer[0].memory != nil && layer[0].room == r {
		return nil
	}
	var next [perLayer]*onnxruntime.Value
	for i := range layer {
		s := &layer[i]
		v, err := n.graph.Allocate(s.datatype, int64(r.Rows), s.heads, int64(r.Length), s.head)
		if err != nil {
			n.graph.Free(next[0])
			return backend.Errorf(backend.Unavailable, "no memory for keys and values of %d texts of %d tokens: %v", r.Rows, r.Length, err)
		}
		next[i] = v
	}
	for i := range layer {
		s := &layer[i]
		for row, length := range lengths {
			s.copy(next[i].Bytes(), r.Length, row, row, length)
		}
		n.graph.Free(s.memory)
		s.memory, s.room = next[i], r
	}
	return nil
}

// common is the room that all layers have.
func (n *Network) common() Room {
	least := n.stores[0].room
	for i := range n.stores {
		least.Rows, least.Length = min(least.Rows, n.stores[i].room.Rows), min(least.Length, n.stores[i].room.Length)
	}
	return least
}

// copy copies what a text of a length has to a place in memory whose texts have room for toLength.
func (s *store) copy(to []byte, toLength, toRow, row, length int) {
	t, from := s.token(), s.memory.Bytes()
	for head := range int(s.heads) {
		a, b := (toRow*int(s.heads)+head)*toLength*t, (row*int(s.heads)+head)*s.room.Length*t
		copy(to[a:a+length*t], from[b:b+length*t])
	}
}

// Move takes what the text at one place has to another.
func (n *Network) Move(from, to, length int) {
	if from == to {
		return
	}
	for i := range n.stores {
		s := &n.stores[i]
		s.copy(s.memory.Bytes(), s.room.Length, to, from, length)
	}
}

// Read takes tokens of the text at a place in, of which past are in the cache. It returns what the
// next token is chosen from.
func (n *Network) Read(place, past int, tokens []int32) ([]float32, error) {
	logits, err := n.graph.Allocate(n.scores, 1, int64(len(tokens)), int64(n.vocabulary))
	if err != nil {
		return nil, err
	}
	defer n.graph.Free(logits)
	if err := n.run(place, len(tokens), tokens, []int{past}, logits); err != nil {
		return nil, err
	}
	all := logits.Bytes()
	return slices.Clone(n.floats(all[len(all)-n.vocabulary*n.scores.Size():])), nil
}

// Step takes one token of each text in, of which past are in the cache. What it returns is what
// their next tokens are chosen from, one after the other, until the next call.
func (n *Network) Step(tokens []int32, past []int) ([]float32, error) {
	if n.last == nil || len(n.last.Bytes()) != n.scores.Size()*len(tokens)*n.vocabulary {
		n.graph.Free(n.last)
		var err error
		if n.last, err = n.graph.Allocate(n.scores, int64(len(tokens)), 1, int64(n.vocabulary)); err != nil {
			n.last = nil
			return nil, err
		}
	}
	if err := n.run(0, 1, tokens, past, n.last); err != nil {
		return nil, err
	}
	return n.floats(n.last.Bytes()), nil
}

// floats are logits as they are chosen from, until the next call.
func (n *Network) floats(b []byte) []float32 {
	if n.scores == tensor.FP32 {
		return Floats(b)
	}
	n.wide = n.wide[:0]
	for _, bits := range unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2) {
		n.wide = append(n.wide, tensor.FloatFP16(bits))
	}
	return n.wide
}

// Floats are those that lie in bytes.
func Floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// run computes width tokens of each text from a place on.
func (n *Network) run(place, width int, tokens []int32, past []int, logits *onnxruntime.Value) (err error) {
	rows, total := len(past), slices.Max(past)+width
	if place+rows > n.room.Rows || total > n.room.Length {
		return backend.Errorf(backend.Internal, "%d texts of %d tokens from place %d on do not fit into %v", rows, total, place, n.room)
	}
	if err := n.look(place, rows); err != nil {
		return err
	}
	for i := range n.stores {
		s := &n.stores[i]
		n.inputs[s.past], n.outputs[s.present] = n.views[i], n.views[i]
	}
	n.outputs[n.logits] = logits
	defer n.pins.Unpin()
	given := []struct {
		at, columns int
		value       func(row, column int) int64
	}{
		{n.tokens, width, func(r, c int) int64 { return int64(tokens[r*width+c]) }},
		{n.mask, total, func(r, c int) int64 {
			if c < past[r]+width {
				return 1
			}
			return 0
		}},
		{n.positions, width, func(r, c int) int64 { return int64(past[r] + c) }},
	}
	for i, v := range given {
		if v.at < 0 {
			continue
		}
		view, err := n.numbers(i, v.at, rows, v.columns, v.value)
		if err != nil {
			return err
		}
		defer n.graph.Free(view)
		n.inputs[v.at] = view
	}
	return n.graph.Run(n.inputs, n.outputs)
}

// numbers makes an input of whole numbers.
func (n *Network) numbers(buffer, at, rows, columns int, value func(row, column int) int64) (*onnxruntime.Value, error) {
	d, b := n.graph.Inputs[at].Datatype, n.ints[buffer][:0]
	for r := range rows {
		for c := range columns {
			if d == tensor.Int64 {
				b = binary.NativeEndian.AppendUint64(b, uint64(value(r, c)))
			} else {
				b = binary.NativeEndian.AppendUint32(b, uint32(value(r, c)))
			}
		}
	}
	n.ints[buffer] = b
	n.pins.Pin(unsafe.SliceData(b))
	return n.graph.View(b, d, int64(rows), int64(columns))
}

// look makes views of what the texts from a place on have.
func (n *Network) look(place, rows int) error {
	if len(n.views) > 0 && n.from == place && n.rows == rows {
		return nil
	}
	n.forget()
	n.from, n.rows = place, rows
	for i := range n.stores {
		s := &n.stores[i]
		b, row := s.memory.Bytes(), s.row(s.room.Length)
		v, err := n.graph.View(b[place*row:(place+rows)*row], s.datatype, int64(rows), s.heads, int64(s.room.Length), s.head)
		if err != nil {
			n.forget()
			return err
		}
		n.views = append(n.views, v)
	}
	return nil
}

func (n *Network) forget() {
	for _, v := range n.views {
		n.graph.Free(v)
	}
	n.views = n.views[:0]
}

// Clear gives all memory of texts back.
func (n *Network) Clear() {
	n.forget()
	for i := range n.stores {
		s := &n.stores[i]
		n.graph.Free(s.memory)
		s.memory, s.room = nil, Room{}
	}
	n.graph.Free(n.last)
	n.last, n.wide, n.room = nil, nil, Room{}
}

// Close frees what the network holds. It is not used afterwards.
func (n *Network) Close() {
	n.Clear()
	n.graph.Close()
}

// check computes two short texts of different lengths one by one and side by side, and says what is
// wrong if that is not alike: then the attention is of another kind than it has to be.
func (n *Network) check(context int, first int32) error {
	defer n.Clear()
	last := int32(n.vocabulary - 1)
	first = min(max(0, first), last)
	texts := [][]int32{{first}, {first, min(3, last), first, min(5, last)}}
	if context <= len(texts[1])+1 {
		return fmt.Errorf("its context has %d tokens", context)
	}
	if err := n.Reserve(Room{len(texts), len(texts[1]) + 1}, nil); err != nil {
		return err
	}
	var next []int32
	var want [][]float32
	for _, text := range texts {
		logits, err := n.Read(0, 0, text)
		if err != nil {
			return err
		}
		next = append(next, Likeliest(logits, nil))
		alone, err := n.Step(next[len(next)-1:], []int{len(text)})
		if err != nil {
			return err
		}
		want = append(want, slices.Clone(alone))
	}
	for place, text := range texts {
		if _, err := n.Read(place, 0, text); err != nil {
			return err
		}
	}
	got, err := n.Step(next, []int{len(texts[0]), len(texts[1])})
	if err != nil {
		return err
	}
	for i, alone := range want {
		if far := furthest(alone, got[i*n.vocabulary:(i+1)*n.vocabulary]); !(far < 0.02) {
			return fmt.Errorf("side by side its texts are not what they are alone (logits differ by %.2g of their range)", far)
		}
	}
	return nil
}

// furthest is by how much of their range numbers differ.
func furthest(want, got []float32) float64 {
	low, high, far := math.Inf(1), math.Inf(-1), 0.0
	for i, v := range want {
		low, high = min(low, float64(v)), max(high, float64(v))
		far = max(far, math.Abs(float64(v)-float64(got[i])))
	}
	return far / max(high-low, 1e-6)
}

// Likeliest is the most likely token that is not left out; of several the first, as the library has
// it.
func Likeliest(logits []float32, without []int32) int32 {
	best, at := float32(math.Inf(-1)), int32(0)
	for i, v := range logits {
		if v > best && !slices.Contains(without, int32(i)) {
			best, at = v, int32(i)
		}
	}
	return at
}
