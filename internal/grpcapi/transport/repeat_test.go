package transport

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
)

// A block that has come before means what it says now, whatever came between.
func TestRepeatedHeaders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{":path", "content-type", "user-agent", "x-a", "x-b", "content-length"}
	c := &intake{}
	c.decoder = hpack.NewDecoder(header.DefaultTableSize, c.field)
	var plain []hpack.HeaderField
	reference := hpack.NewDecoder(header.DefaultTableSize, func(f hpack.HeaderField) { plain = append(plain, f) })
	var wire bytes.Buffer
	encoder := hpack.NewEncoder(&wire)
	hits := 0
	var blocks [][]byte
	for range 20000 {
		wire.Reset()
		for i := range 1 + rnd.IntN(3) {
			if i == 0 && rnd.IntN(20) == 0 {
				encoder.SetMaxDynamicTableSize(uint32(64 + rnd.IntN(4032)))
			}
			f := hpack.HeaderField{Name: names[rnd.IntN(len(names))], Value: string(rune('a' + rnd.IntN(3))), Sensitive: rnd.IntN(3) == 0}
			if err := encoder.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		block := slices.Clone(wire.Bytes())
		blocks = append(blocks, block)
		if header.KeepsTable(block) && rnd.IntN(2) == 0 {
			blocks = append(blocks, block)
		}
	}
	for _, block := range blocks {
		plain = nil
		if _, err := reference.Write(block); err != nil {
			t.Fatal(err)
		}
		if err := reference.Close(); err != nil {
			t.Fatal(err)
		}
		if c.repeats(block) {
			hits++
		} else if err := c.decode(block); err != nil {
			t.Fatal(err)
		}
		other := intake{}
		for _, f := range plain {
			other.field(f)
		}
		want := other.head
		if c.head.Path != want.Path || c.head.ContentType != want.ContentType || !slices.Equal(c.head.Fields, want.Fields) ||
			!slices.Equal(c.fields, want.Fields) {
			t.Fatalf("block %x: got %+v, want %+v", block, c.head, want)
		}
	}
	if hits < 100 {
		t.Fatalf("%d of %d blocks were recognized", hits, len(blocks))
	}
}
