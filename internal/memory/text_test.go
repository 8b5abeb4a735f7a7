package memory

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestTextGrows(t *testing.T) {
	var x Text
	x.Free()
	var want []byte
	b := x.Grow(1)
	for len(want) < 9<<20 {
		part := bytes.Repeat([]byte{byte(len(want) >> 16)}, 300<<10)
		b = x.Grow(len(want) + len(part))
		copy(b[len(want):], part)
		want = append(want, part...)
	}
	if !bytes.Equal(b[:len(want)], want) {
		t.Error("growing changes what has been written")
	}
	if again := x.Grow(5); len(again) != len(b) {
		t.Error("it shrinks")
	}
	x.Free()
	x.Free()
}

// resident returns what the process holds, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the system does not say what a process holds")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// Room that nobody writes to is not held, also when it had been used before.
func TestUntouchedIsNotHeld(t *testing.T) {
	const room = 1 << 30
	before := resident(t)
	for range 2 {
		var x Text
		copy(x.Grow(room), "begun")
		full := fresh(room)
		copy(full, "begun")
		if held := resident(t) - before; held > room/8 {
			t.Errorf("%d bytes are held of which few have been written", held)
		}
		drop(full)
		x.Free()
	}
}
