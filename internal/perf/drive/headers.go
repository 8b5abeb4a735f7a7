package drive

import (
	"bytes"
	"net/url"

	"golang.org/x/net/http2/hpack"
)

// outcome is what is needed of a block of headers.
type outcome struct{ http, grpc, message string }

// headers reads blocks. Answers repeat each other: a block that leaves the table of
// the compression as it was means the same until another one changes it.
type headers struct {
	decoder   *hpack.Decoder
	known     map[string]outcome
	peerTable uint32
}

// mostKnown bounds the blocks that are remembered, longKnown each of them in bytes.
const (
	mostKnown = 64
	longKnown = 1 << 10
)

func newHeaders() headers {
	return headers{decoder: hpack.NewDecoder(4096, nil), known: map[string]outcome{}, peerTable: 4096}
}

func (h *headers) read(block []byte) (outcome, error) {
	if o, ok := h.known[string(block)]; ok {
		return o, nil
	}
	var o outcome
	h.decoder.SetEmitFunc(func(f hpack.HeaderField) {
		switch f.Name {
		case ":status":
			o.http = f.Value
		case "grpc-status":
			o.grpc = f.Value
		case "grpc-message":
			o.message = f.Value
			if text, err := url.PathUnescape(f.Value); err == nil {
				o.message = text
			}
		}
	})
	if _, err := h.decoder.Write(block); err != nil {
		return o, malformed("headers: %v", err)
	}
	if err := h.decoder.Close(); err != nil {
		return o, malformed("headers: %v", err)
	}
	if changesTable(block) {
		clear(h.known)
	} else if len(h.known) < mostKnown && len(block) <= longKnown {
		h.known[string(block)] = o
	}
	return o, nil
}

// changesTable walks a valid block and reports whether it adds to the table or
// changes its size.
func changesTable(b []byte) bool {
	for len(b) > 0 {
		first := b[0]
		switch {
		case first&0x80 != 0:
			b = skipNumber(b, 7)
			continue
		case first&0x40 != 0, first&0x20 != 0:
			return true
		}
		index := first & 0x0f
		if b = skipNumber(b, 4); index == 0 {
			b = skipString(b)
		}
		b = skipString(b)
	}
	return false
}

func skipNumber(b []byte, bits int) []byte {
	_, rest := number(b, bits)
	return rest
}

func number(b []byte, bits int) (n int, rest []byte) {
	if len(b) == 0 {
		return 0, nil
	}
	mask := byte(1<<bits - 1)
	if n = int(b[0] & mask); n < int(mask) {
		return n, b[1:]
	}
	b = b[1:]
	for shift := 0; len(b) > 0 && shift < 28; shift += 7 {
		n += int(b[0]&0x7f) << shift
		more := b[0]&0x80 != 0
		if b = b[1:]; !more {
			break
		}
	}
	return n, b
}

func skipString(b []byte) []byte {
	n, rest := number(b, 7)
	return rest[min(n, len(rest)):]
}

// encodeBlocks returns the block of the first request of a connection, which fills
// the table of the compression, and that of the others, which refers to it. Without
// a table both are the same.
func encodeBlocks(fields [][2]string, table bool) (first, rest []byte) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	if !table {
		e.SetMaxDynamicTableSize(0)
	}
	encode := func() []byte {
		b.Reset()
		for _, f := range fields {
			_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
		}
		return bytes.Clone(b.Bytes())
	}
	first = encode()
	if !table {
		return first, first // with the size of the table, which is 0, in front each time
	}
	return first, encode()
}
