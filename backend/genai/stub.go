package genai

import (
	"runtime"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// loadWords makes the library's objects of a model whose network runs here: in place of the
// network stands a graph that computes nothing. The library tokenizes, knows the chat template, and
// chooses tokens from logits that it is given (see [generator.choose]).
func (n *network) loadWords(cfg *backend.Config) error {
	config, err := n.make(fnCreateConfig, uintptr(unsafe.Pointer(library.CString(cfg.VersionDirectory))))
	if err != nil {
		return hidden(cfg, err)
	}
	defer n.free(fnDestroyConfig, config)
	const overlay = `{"model": {"decoder": {"session_options": {"intra_op_num_threads": 1}}}}`
	if err := n.call(fnConfigOverlay, config, uintptr(unsafe.Pointer(library.CString(overlay)))); err != nil {
		return hidden(cfg, err)
	}
	d := &n.settings.Model.Decoder
	graph := emptyGraph(d.Inputs.Tokens, d.Outputs.Logits, n.settings.Model.VocabSize)
	var pins runtime.Pinner
	pins.Pin(&graph[0]) // the library reads it when the model is made
	defer pins.Unpin()
	if err := n.call(fnConfigAddModelData, config, uintptr(unsafe.Pointer(library.CString(d.Filename))), uintptr(unsafe.Pointer(&graph[0])),
		uintptr(len(graph))); err != nil {
		return hidden(cfg, err)
	}
	return n.create(cfg, config)
}

// emptyGraph is an ONNX model that makes logits of 0 for the last token of each text.
func emptyGraph(tokens, logits string, vocabulary int) []byte {
	const (
		int64Type, floatType = 7, 1
		irVersion, opset     = 8, 13
	)
	part := func(b []byte, field protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
	}
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	text := func(b []byte, field protowire.Number, s string) []byte { return part(b, field, []byte(s)) }
	node := func(op, output string, inputs ...string) (b []byte) {
		for _, in := range inputs {
			b = text(b, 1, in)
		}
		return text(text(b, 2, output), 4, op)
	}
	// names of dimensions, or numbers
	value := func(name string, element uint64, dims ...any) []byte {
		var shape []byte
		for _, d := range dims {
			if size, ok := d.(int); ok {
				shape = part(shape, 1, number(nil, 1, uint64(size)))
			} else {
				shape = part(shape, 1, text(nil, 2, d.(string)))
			}
		}
		tensorType := part(number(nil, 1, element), 2, shape)
		return part(text(nil, 1, name), 2, part(nil, 1, tensorType))
	}
	constant := func(name string, values ...int) []byte {
		b := number(nil, 1, uint64(len(values)))
		b = number(b, 2, int64Type)
		for _, v := range values {
			b = number(b, 7, uint64(v))
		}
		return text(b, 8, name)
	}
	var graph []byte
	for _, n := range [][]byte{
		node("Shape", "shape", tokens),
		node("Slice", "texts", "shape", "zero", "one"),
		part(node("Concat", "wanted", "texts", "last"), 5, number(number(text(nil, 1, "axis"), 3, 0), 20, 2)), // 2: INT
		node("ConstantOfShape", logits, "wanted"),
	} {
		graph = part(graph, 1, n)
	}
	graph = text(graph, 2, "nothing")
	for _, c := range [][]byte{constant("zero", 0), constant("one", 1), constant("last", 1, vocabulary)} {
		graph = part(graph, 5, c)
	}
	graph = part(graph, 11, value(tokens, int64Type, "texts", "tokens"))
	graph = part(graph, 12, value(logits, floatType, "texts", 1, vocabulary))
	model := number(nil, 1, irVersion)
	model = part(model, 7, graph)
	return part(model, 8, number(nil, 2, opset))
}
