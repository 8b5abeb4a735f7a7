package read

import (
	"testing"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// A file that is no text at all is said to be that, not a hundred faults. Strings
// may have control characters, but for zero.
func TestTextIsBinary(t *testing.T) {
	for _, c := range []struct{ name, text, place string }{
		{"binary", "backend: \"x\"\n\x08\x00{}}}\xff:", "2:1"},
		{"zero in quotes", "backend: \"x\x00\"", "1:12"},
		{"behind a string", "backend: \"x\\\"\" \x01", "1:16"},
		{"behind one without an end", "backend: \"x\n\x01", "2:1"},
		{"zero in a comment", "# \x00\nbackend: \"x\"", ""},
		{"in quotes", "backend: \"x\x01\" name: 'a\x1b[0m'", ""},
	} {
		_, faults := Text([]byte(c.text), "m/config.pbtxt", (&inferencepb.ModelConfig{}).ProtoReflect())
		want := ""
		if c.place != "" {
			want = "m/config.pbtxt:" + c.place + ": expected text, such as 'backend: \"python\"', found binary data"
		}
		if got := faults.Error(); got != want {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
	}
}
