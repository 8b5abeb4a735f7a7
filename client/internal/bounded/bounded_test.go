package bounded

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, declared := range []int64{-1, 10000} {
		got, err := ReadAll(iotest.OneByteReader(strings.NewReader(text)), declared, 10000, 0)
		if err != nil || string(got) != text {
			t.Errorf("declared %d: %v, %d bytes", declared, err, len(got))
		}
	}
	for _, declared := range []int64{-1, 10000, 1 << 60} {
		if _, err := ReadAll(strings.NewReader(text), declared, 9999, 0); err == nil {
			t.Errorf("declared %d: more than the limit was read", declared)
		}
	}
	for _, limit := range []int64{math.MaxInt64, math.MaxInt64 - 1} { // who wants no bound
		if got, err := ReadAll(strings.NewReader(text), -1, limit, 63); err != nil || string(got) != text {
			t.Errorf("limit %d: %v, %d bytes", limit, err, len(got))
		}
	}
	got, err := ReadAll(strings.NewReader("few"), 1<<40, 1<<41, 0) // a length that is a lie
	if err != nil || string(got) != "few" || cap(got) > trusted {
		t.Errorf("%v, %d bytes for three", err, cap(got))
	}
}

func TestCompressedBack(t *testing.T) {
	parts := [][]byte{[]byte("one"), nil, []byte(strings.Repeat("two", 1000))}
	for _, encoding := range []string{Gzip, Deflate, Gzip} {
		b, err := Compress(encoding, parts)
		if err != nil || len(b) > 200 {
			t.Fatalf("%s: %v, %d bytes", encoding, err, len(b))
		}
		r, err := Expand(encoding, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadAll(r, -1, 1<<20, 0); err != nil || !bytes.Equal(got, bytes.Join(parts, nil)) {
			t.Errorf("%s: %v, %q", encoding, err, got)
		}
	}
	if _, err := Compress("br", parts); err == nil {
		t.Error("unknown: no error")
	}
	if _, err := Expand("br", nil); err == nil {
		t.Error("unknown: no error")
	}
}

// TestBomb: what expands beyond the limit is given up there.
func TestBomb(t *testing.T) {
	b, err := Compress(Gzip, [][]byte{make([]byte, 64<<20)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Expand(Gzip, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAll(r, -1, 1<<20, 0); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}
