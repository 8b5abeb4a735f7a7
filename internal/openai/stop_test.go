package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// upToStop is what the cutter does, the obvious way.
func upToStop(text []byte, words []string, shown bool) (said string, found bool) {
	for end := 1; end <= len(text); end++ {
		longest := 0
		for _, w := range words {
			if bytes.HasSuffix(text[:end], []byte(w)) {
				longest = max(longest, len(w))
			}
		}
		if longest > 0 && shown {
			return string(text[:end]), true
		}
		if longest > 0 {
			return string(text[:end-longest]), true
		}
	}
	return string(text), false
}

func FuzzStops(f *testing.F) {
	f.Add([]byte("one two STOP three"), "STOP,wo S", uint64(5), false)
	f.Add([]byte("aabaabaaab"), "aabaaab,aaa", uint64(1<<40+77), true)
	f.Add([]byte("drei größe"), "öß,ß", uint64(0xffff), false)
	f.Fuzz(func(t *testing.T, text []byte, list string, cuts uint64, shown bool) {
		var words []string
		for w := range strings.SplitSeq(list, ",") {
			if w != "" && len(words) < maxStops {
				words = append(words, w)
			}
		}
		if len(words) == 0 {
			return
		}
		c := cutter{stops: newStops(words, shown)}
		said := ""
		for from, at := 0, 1; from < len(text); at++ {
			if at < len(text) && cuts>>(at%64)&1 == 0 {
				continue
			}
			at = min(at, len(text))
			said += string(c.take(text[from:at]))
			from = at
			if want, _ := upToStop(text[:from], words, shown); !strings.HasPrefix(want, said) || c.upTo != len(said) {
				t.Fatalf("%q is said of %q, which becomes %q", said, text[:from], want)
			}
		}
		found := c.done
		if !found {
			said += string(c.rest())
		}
		if want, has := upToStop(text, words, shown); said != want || found != has {
			t.Errorf("%q at %q: %q, %v, want %q, %v", text, words, said, found, want, has)
		}
	})
}

// A model that knows nothing of strings to stop at ends at them all the same.
func TestStopsOfAnAnswer(t *testing.T) {
	tokens := func(p string) []token { return []token{{candidate: newCandidate(p, -1, 1)}} }
	for name, c := range map[string]struct {
		body   string
		pieces []string
		text   string
		finish string
		tokens int
	}{
		"in a piece":          {`"stop":"END"`, []string{"one END two"}, "one ", "stop", 1},
		"over three pieces":   {`"stop":["x","END"]`, []string{"one ", "E", "N", "D two", " three"}, "one ", "stop", 1},
		"begun and not whole": {`"stop":"END"`, []string{"one ", "EN", "DE", "N"}, "one ", "stop", 1},
		"never whole":         {`"stop":"END"`, []string{"one ", "EN", "d"}, "one ENd", "length", 3},
		"shown":               {`"stop":"END","include_stop_str_in_output":true`, []string{"one ", "E", "ND two"}, "one END", "stop", 3},
		"at once":             {`"stop":"o"`, []string{"o"}, "", "stop", 0},
	} {
		for _, stream := range []bool{false, true} {
			r, bad := Parse(Completions, fmt.Appendf(nil, `{"model":"m","prompt":"x","logprobs":0,"stream":%v,%s}`, stream, c.body))
			if bad != nil {
				t.Fatal(bad)
			}
			a := NewAnswer(r, strings.Repeat("0", 24), 1, 1)
			b := a.Open(nil)
			for i, p := range c.pieces {
				finish := ""
				if i == len(c.pieces)-1 {
					finish = "length"
				}
				if !a.Stopped(0) {
					b = a.Add(b, 0, &Piece{Text: []byte(p), Finish: finish, Prompt: -1, Tokens: -1, logprobs: tokens(p)})
				}
			}
			b = a.End(b, 0)
			b, _ = a.Close(b)
			text, finish, n := "", "", 0
			for event := range strings.SplitSeq(strings.TrimSuffix(string(b), "data: [DONE]\n\n"), "\n\n") {
				var chunk struct {
					Choices []struct {
						Text     string
						Finish   string `json:"finish_reason"`
						Logprobs struct{ Tokens []string }
					}
				}
				if event == "" {
					continue
				}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk); err != nil {
					t.Fatalf("%s: %v: %s", name, err, event)
				}
				for _, c := range chunk.Choices {
					text, finish, n = text+c.Text, finish+c.Finish, n+len(c.Logprobs.Tokens)
				}
			}
			if text != c.text || finish != c.finish || n != c.tokens {
				t.Errorf("%s, stream %v: %q, %s, %d tokens, want %q, %s, %d", name, stream, text, finish, n, c.text, c.finish, c.tokens)
			}
		}
	}
}

func TestStopsThatAreWrong(t *testing.T) {
	for body, want := range map[string]string{
		`"stop":""`: "'stop' has a string of 0 bytes (the one at 0), expected 1 to 4096",
		`"stop":["a","` + strings.Repeat("x", 4097) + `"]`: "'stop' has a string of 4097 bytes (the one at 1), expected 1 to 4096",
		`"stop":"a","include_stop_str_in_output":7`:        "'include_stop_str_in_output' is 7, expected true or false",
	} {
		if _, bad := Parse(Completions, []byte(`{"model":"m","prompt":"x",`+body+`}`)); bad == nil || bad.Message != want {
			t.Errorf("%.40s: %v, want %s", body, bad, want)
		}
	}
}
