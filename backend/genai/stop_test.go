package genai

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestStopper(t *testing.T) {
	for _, c := range []struct {
		name   string
		stops  []string
		keep   bool
		pieces []string
		want   []string // what each piece gives, and what is left
		found  bool
	}{
		{"none", nil, false, []string{"ab", "c"}, []string{"ab", "c", ""}, false},
		{"in one piece", []string{"b"}, false, []string{"abc"}, []string{"a"}, true},
		{"over pieces", []string{"END"}, false, []string{"xE", "N", "D"}, []string{"x", "", ""}, true},
		{"a beginning that goes on otherwise", []string{"END"}, false, []string{"xEN", "y"}, []string{"x", "ENy", ""}, false},
		{"a beginning at the end", []string{"END"}, false, []string{"xEN"}, []string{"x", "EN"}, false},
		{"a beginning in a beginning", []string{"aab"}, false, []string{"aa", "ab"}, []string{"", "a"}, true},
		{"the first to end", []string{"abc", "b"}, false, []string{"abc"}, []string{"a"}, true},
		{"the longest of one end", []string{"b", "ab"}, false, []string{"xab"}, []string{"x"}, true},
		{"kept", []string{"END"}, true, []string{"xEN", "Dy"}, []string{"x", "END"}, true},
	} {
		s := stopper{stops: c.stops, keep: c.keep}
		var got []string
		found := false
		for _, p := range c.pieces {
			var out string
			out, found = s.push(p)
			got = append(got, out)
			if found {
				break
			}
		}
		if !found {
			got = append(got, s.rest())
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || found != c.found {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, got, found, c.want, c.found)
		}
	}
}

// TestStopperTwin compares with what looks at the whole text byte by byte.
func TestStopperTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		b := make([]byte, 1+random.IntN(most))
		for i := range b {
			b[i] = "ab"[random.IntN(2)]
		}
		return string(b)
	}
	for range 20000 {
		stops := []string{word(5), word(5)}
		pieces := []string{word(4), word(4), word(4)}
		whole := strings.Join(pieces, "")
		want, end := whole, false
		for n := 1; n <= len(whole) && !end; n++ {
			length := 0
			for _, s := range stops {
				if strings.HasSuffix(whole[:n], s) {
					length = max(length, len(s))
				}
			}
			if length > 0 {
				want, end = whole[:n-length], true
			}
		}
		s := stopper{stops: stops}
		got, found := "", false
		for _, p := range pieces {
			var out string
			if out, found = s.push(p); found {
				got += out
				break
			}
			got += out
		}
		if !found {
			got += s.rest()
		}
		if got != want || found != end {
			t.Fatalf("stops %q, pieces %q: got %q, %v, want %q, %v", stops, pieces, got, found, want, end)
		}
	}
}
