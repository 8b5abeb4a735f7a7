package modelconfig

import (
	"strings"
	"testing"
)

// A file that is no text at all is said to be that, not a hundred faults.
func TestParseBinary(t *testing.T) {
	for name, text := range map[string]string{
		"binary": "backend: \"x\"\n\x08\x00{}}}\xff:", "zero in a comment": "# \x00\n}",
	} {
		_, err := Parse([]byte(text), "m/config.pbtxt")
		faults := asFaults(err)
		binary := len(faults) == 1 && strings.HasPrefix(faults[0].Error(), "m/config.pbtxt:2:1: expected text") && strings.Contains(faults[0].Error(), "binary")
		if want := name == "binary"; binary != want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
