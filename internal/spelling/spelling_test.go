package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"http-port", "grpc-port", "max_batch_size", "TYPE_FP32", "id", "session.*"}
	for name, want := range map[string]string{
		"http-prot": "http-port", "HTTP-PORT": "http-port", "max_batch_sise": "max_batch_size", "max_bacth_size": "max_batch_size",
		"mxa_bacth_siez": "max_batch_size", "di": "id", "type_fp23": "TYPE_FP32", "ip": "id",
		"x": "", "": "", "something else": "", strings.Repeat("max_batch_size", 9): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := Nearest("a", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestKnown(t *testing.T) {
	list := []string{"threads", "session.*"}
	for name, want := range map[string]bool{
		"threads": true, "session.x": true, "session.": true, "thread": false, "sessions": false,
		"": false,
	} {
		if got := Known(name, list); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"kitten", "sitting", 3},
		{"abc", "acb", 1},
		{"same", "same", 0},
		{"ca", "abc", 3},
		{"bacth", "batch", 1},
		{"ab", "ba", 1},
		{"abcd", "badc", 2},
	} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestMeant(t *testing.T) {
	if got := Meant("http-prot", []string{"http-port"}); got.String() != "meant=http-port" {
		t.Errorf("got %v", got)
	}
	if got := Meant("x", nil); got.Key != "" {
		t.Errorf("of nothing: %v", got)
	}
}
