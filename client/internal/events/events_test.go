package events

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(text string, limit int) (all []string, err error) {
	for data, bad := range Read(strings.NewReader(text), limit) {
		if bad != nil {
			return all, bad
		}
		all = append(all, string(data))
	}
	return all, nil
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		bad  string
	}{
		{"data: {\"a\":1}\n\ndata:{}\r\n\r\n", []string{`{"a":1}`, `{}`}, ""},
		{": ping\n\nevent: x\nid: 4\ndata: a\ndata: b\n\n", []string{"a\nb"}, ""},
		{"", nil, ""},
		{"data: half", nil, "ends within an event"},
		{"data: " + strings.Repeat("x", 70) + "\n\n", nil, "longer than 64 bytes"},
		{strings.Repeat("data: 123456789\n", 9) + "\n", nil, "longer than 64 bytes"},
	} {
		got, err := read(c.text, 64)
		if !cmp.Equal(got, c.want) || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%.40q: got %q, %v", c.text, got, err)
		}
	}
	broken := io.MultiReader(strings.NewReader("data: 1\n\nda"), &failing{})
	n := 0
	for _, err := range Read(broken, 64) {
		if n++; n == 2 && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {}\n\ndata: 1\ndata: 2\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 64
		for data, err := range Read(bytes.NewReader(text), limit) {
			if err == nil && len(data) > limit {
				t.Errorf("%d bytes", len(data))
			}
		}
	})
}
