package genai

import (
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// encode returns the tokens of a text, which has no NUL.
func (n *network) encode(text string) ([]int32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, err := n.make(fnCreateSequences)
	if err != nil {
		return nil, err
	}
	defer n.free(fnDestroySequences, all)
	if err := n.call(fnTokenizerEncode, n.tokenizer, uintptr(unsafe.Pointer(library.CString(text))), all); err != nil {
		return nil, err
	}
	count := int(n.plain(fnSequenceCount, all, 0))
	if count == 0 {
		return nil, nil
	}
	data := library.Bytes(n.plain(fnSequenceData, all, 0), 4*count)
	if data == nil {
		return nil, nil
	}
	return slices.Clone(unsafe.Slice((*int32)(unsafe.Pointer(&data[0])), count)), nil
}

// decode returns the text of tokens.
func (n *network) decode(tokens []int32) (string, error) {
	if len(tokens) == 0 {
		return "", nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&tokens[0])
	text, err := n.make(fnTokenizerDecode, n.tokenizer, uintptr(unsafe.Pointer(&tokens[0])), uintptr(len(tokens)))
	return strings.ToValidUTF8(n.text(text), "\uFFFD"), err
}

// plainText is an error for what the library would not read as it stands.
func plainText(what, text string) error {
	if !utf8.ValidString(text) {
		at := 0
		for at < len(text) {
			r, size := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return backend.Errorf(backend.InvalidArg, "'%s' is not valid UTF-8 from byte %d on", what, at)
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return backend.Errorf(backend.InvalidArg, "'%s' has a NUL at byte %d, which no tokenizer of the library reads", what, at)
	}
	return nil
}

// words is the text of tokens as they come: each Decode gives what is whole by then. It is of
// one goroutine.
type words struct {
	network *network
	stream  uintptr
	out     *uintptr
	pins    runtime.Pinner
}

func (n *network) newWords() (*words, error) {
	n.mu.Lock()
	stream, err := n.make(fnCreateTokenizerStream, n.tokenizer)
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w := &words{network: n, stream: stream, out: new(uintptr)}
	w.pins.Pin(w.out)
	return w, nil
}

func (w *words) decode(token int32) (string, error) {
	n := w.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.call(fnTokenizerStreamDecode, w.stream, uintptr(token), uintptr(unsafe.Pointer(w.out))); err != nil {
		return "", err
	}
	return strings.ToValidUTF8(library.GoString(*w.out), "\uFFFD"), nil // the stream's, until its next call
}

func (w *words) close() {
	w.network.free(fnDestroyTokenizerStream, w.stream)
	w.stream = 0
	w.pins.Unpin()
}
