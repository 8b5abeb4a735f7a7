package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"[{"`: 0, `[]`: 1, `[[],[[]]]`: 3, `{"a":[{"\"":"]"}],"b":{}}`: 3, `"\\",[`: 1,
	} {
		if got := depth([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	deep := func(n int) []byte {
		return []byte(`{"model":"m","prompt":"x","top_k":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}")
	}
	if _, bad := Parse(Completions, deep(maxDepth-1)); bad != nil {
		t.Error(bad)
	}
	want := "the values of the body lie 257 deep in each other, the most is 256"
	if _, bad := Parse(Completions, deep(maxDepth)); bad == nil || bad.Message != want {
		t.Errorf("%v, want %s", bad, want)
	}
}

func TestMendHalves(t *testing.T) {
	for text, want := range map[string]string{
		`"plain"`:                    `"plain"`,
		`"\ud83e\udd9c"`:             `"\ud83e\udd9c"`,
		`"\uD83E\uDD9C\uD83E"`:       `"\uD83E\uDD9C\ufffd"`,
		`"\ud83e"`:                   `"\ufffd"`,
		`"\udd9c\ud83e"`:             `"\ufffd\ufffd"`,
		`"\ud83e\ud83e\udd9c"`:       `"\ufffd\ud83e\udd9c"`,
		`"\ud83ex\udd9c"`:            `"\ufffdx\ufffd"`,
		`"\ud83e\n\udd9c"`:           `"\ufffd\n\ufffd"`,
		`"\\ud83e"`:                  `"\\ud83e"`,
		`"\\\ud83e"`:                 `"\\\ufffd"`,
		`"\u00e9\ufffd\u0000"`:       `"\u00e9\ufffd\u0000"`,
		`\ud8`:                       `\ud8`,
		`\`:                          `\`,
		`\u`:                         `\u`,
		`"\uzzzz\ud83g\ud83e`:        `"\uzzzz\ud83g\ufffd`,
		`{"\ud83e":"\udd9c","a":[]}`: `{"\ufffd":"\ufffd","a":[]}`,
	} {
		got := []byte(text)
		mendHalves(got)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// What is mended says what it said before, by package json, and is left alone then.
func FuzzMendHalves(f *testing.F) {
	for _, s := range []string{`"\ud83e\udd9c"`, `["\ud83e",{"\udd9c":"\\ud83e\""}]`, `"\ud83e\`, `\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := bytes.Clone(text)
		mendHalves(got)
		again := bytes.Clone(got)
		if mendHalves(again); !bytes.Equal(got, again) {
			t.Fatalf("%q became %q, then %q", text, got, again)
		}
		var before, after any
		errBefore, errAfter := json.Unmarshal(text, &before), json.Unmarshal(got, &after)
		if (errBefore == nil) != (errAfter == nil) {
			t.Fatalf("%q: %v, mended %q: %v", text, errBefore, got, errAfter)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("%q became %q: %s", text, got, diff)
		}
	})
}
