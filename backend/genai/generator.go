package genai

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/backend/genai/step"
	"github.com/nesoserve/neso/backend/internal/library"
)

// generator is the library's state of one request: its tokens, keys and values. It is of one
// goroutine at a time.
type generator struct {
	network *network
	handle  uintptr
	out     *[2]uintptr
	pins    runtime.Pinner
}

// numberOption is a search option that is a number.
type numberOption struct {
	name  string
	value float64
}

// search are the options of the library's search for a prompt of so many tokens.
func (o *options) search(s *settings, prompt int) (list []numberOption, sample bool) {
	put := func(name string, v float64) { list = append(list, numberOption{name, v}) }
	put("max_length", float64(prompt+o.maxTokens))
	put("min_length", 0)
	if o.minTokens > 0 {
		put("min_length", float64(prompt+o.minTokens))
	}
	put("num_beams", float64(max(1, o.beams)))
	put("num_return_sequences", float64(max(1, o.sequences)))
	for _, n := range []struct {
		name  string
		value *float64
	}{
		{"temperature", o.temperature},
		{"top_p", o.topP},
		{"top_k", o.topK},
		{"repetition_penalty", o.repetition},
		{"length_penalty", o.lengthPenalty},
		{"no_repeat_ngram_size", o.noRepeat},
	} {
		if n.value != nil && !(n.name == "temperature" && *n.value == 0) {
			put(n.name, *n.value)
		}
	}
	if o.seed != nil {
		put("random_seed", float64(*o.seed))
	}
	return list, o.samples(s)
}

// newGenerator reads the prompt. It computes for long.
func (n *network) newGenerator(o *options, prompt []int32) (*generator, error) {
	params, err := n.make(fnCreateGeneratorParams, n.model)
	if err != nil {
		return nil, err
	}
	defer n.free(fnDestroyGeneratorParams, params)
	numbers, sample := o.search(n.settings, len(prompt))
	for _, s := range numbers {
		if err := n.failure(n.setSearchNumber(params, library.CString(s.name), s.value)); err != nil {
			return nil, err
		}
	}
	flags := []struct {
		name string
		set  *bool
	}{{"do_sample", &sample}, {"early_stopping", o.earlyStopping}}
	for _, f := range flags {
		if f.set == nil {
			continue
		}
		if err := n.call(fnSetSearchBool, params, uintptr(unsafe.Pointer(library.CString(f.name))), word(*f.set)); err != nil {
			return nil, err
		}
	}
	if o.guidance != "" {
		if err := n.call(fnSetGuidance, params, uintptr(unsafe.Pointer(library.CString(o.guidance))),
			uintptr(unsafe.Pointer(library.CString(o.grammar))), 0); err != nil {
			return nil, err
		}
	}
	g := &generator{network: n, out: new([2]uintptr)}
	if g.handle, err = n.make(fnCreateGenerator, n.model, params); err != nil {
		return nil, err
	}
	g.pins.Pin(g.out)
	if o.adapter != "" {
		err = n.call(fnSetActiveAdapter, g.handle, n.adapters, uintptr(unsafe.Pointer(library.CString(o.adapter))))
	}
	if err == nil {
		g.pins.Pin(&prompt[0])
		err = n.call(fnAppendTokens, g.handle, uintptr(unsafe.Pointer(&prompt[0])), uintptr(len(prompt)))
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func word(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}

// next implements source.
func (g *generator) next(n int) (piece, error) {
	var p piece
	var sum float64
	var logits []float32
	if n > 0 {
		err := g.logits(false, func(values []float32) {
			logits = slices.Clone(values)
			p.best, sum = candidates(logits, n)
		})
		if err != nil {
			return p, err
		}
	}
	var err error
	if p.token, err = g.take(); err != nil {
		return p, err
	}
	if n > 0 {
		p.taken = takenFrom(logits, sum, p.token)
	}
	p.done = p.token == tokenNone || yes(g.network.plain(fnIsDone, g.handle))
	return p, nil
}

// take has the library choose the next token; tokenNone says that there is none.
func (g *generator) take() (int32, error) {
	n := g.network
	if err := n.call(fnGenerateNextToken, g.handle); err != nil {
		return 0, err
	}
	err := n.call(fnGetNextTokens, g.handle, uintptr(unsafe.Pointer(&g.out[0])), uintptr(unsafe.Pointer(&g.out[1])))
	if err != nil || g.out[0] == 0 || g.out[1] == 0 {
		return tokenNone, err
	}
	return *(*int32)(library.Pointer(g.out[0])), nil
}

// choose has the library choose the next token from logits of a network that it does not run.
func (g *generator) choose(logits []float32) (int32, error) {
	if err := g.logits(true, func(own []float32) { copy(own, logits) }); err != nil {
		return 0, err
	}
	return g.take()
}

// logits shows what the next token is chosen from, in memory of the library's; with put it is chosen
// from what look has left there.
func (g *generator) logits(put bool, look func([]float32)) error {
	n := g.network
	t, err := n.make(fnGetLogits, g.handle)
	if err != nil {
		return err
	}
	defer n.free(fnDestroyTensor, t)
	data, err := n.make(fnTensorGetData, t)
	if err != nil {
		return err
	}
	values := library.Bytes(data, 4*n.settings.Model.VocabSize)
	if values == nil {
		return &libraryError{"the library has no logits"}
	}
	look(step.Floats(values))
	if !put {
		return nil
	}
	return n.call(fnSetLogits, g.handle, t)
}

// sequence is a whole text, of prompt and answer, by its place among those that were searched.
func (g *generator) sequence(at int) []int32 {
	n := g.network
	count := int(n.plain(fnGeneratorSequenceCount, g.handle, uintptr(at)))
	data := library.Bytes(n.plain(fnGeneratorSequenceData, g.handle, uintptr(at)), 4*count)
	if data == nil {
		return nil
	}
	return append([]int32(nil), unsafe.Slice((*int32)(unsafe.Pointer(&data[0])), count)...)
}

// elementSize is how many bytes an element of an input has, 0 for not known.
func (g *generator) elementSize(input string) int {
	n := g.network
	t, err := n.make(fnGetInput, g.handle, uintptr(unsafe.Pointer(library.CString(input))))
	if err != nil {
		return 0
	}
	defer n.free(fnDestroyTensor, t)
	kind, err := n.make(fnTensorGetType, t)
	if err != nil {
		return 0
	}
	// OgaElementType: 1 float32, 2 uint8, 3 int8, ..., 10 float16, 11 float64, ..., 16 bfloat16.
	return map[int32]int{1: 4, 2: 1, 3: 1, 10: 2, 11: 8, 16: 2}[int32(kind)]
}

func (g *generator) close() {
	g.network.free(fnDestroyGenerator, g.handle)
	g.handle = 0
	g.pins.Unpin()
}
