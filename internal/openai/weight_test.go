package openai

import (
	"runtime"
	"strings"
	"testing"
)

// What reading a body takes is known from its text, however small its values are, and
// grows with it: a message of a million parts is no more work than a million messages.
func TestWeight(t *testing.T) {
	const size = 256 << 10
	many := func(one string) string { return "[" + strings.Repeat(one+",", size/(len(one)+1)) + one + "]" }
	chat := func(member string) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"}],` + member + "}"
	}
	said := func(message string) string { return `{"model":"m","messages":[` + message + `]}` }
	for name, c := range map[string]struct {
		route Route
		body  string
	}{
		"parts":        {Chat, said(`{"role":"user","content":` + many(`{"type":"text","text":"a"}`) + "}")},
		"empty parts":  {Chat, said(`{"role":"user","content":` + many(`{}`) + "}")},
		"calls":        {Chat, said(`{"role":"assistant","tool_calls":` + many(`{"function":{"name":"f"}}`) + "}")},
		"empty calls":  {Chat, said(`{"role":"assistant","tool_calls":` + many(`{}`) + "}")},
		"messages":     {Chat, `{"model":"m","messages":` + many("1") + "}"},
		"tools":        {Chat, chat(`"tools":` + many(`{}`))},
		"flat tools":   {Responses, `{"model":"m","input":"x","tools":` + many(`{}`) + "}"},
		"stops":        {Chat, chat(`"stop":` + many(`""`))},
		"unknown":      {Chat, chat(`"x":` + many("0"))},
		"prompts":      {Completions, `{"model":"m","prompt":` + many(`""`) + "}"},
		"items":        {Responses, `{"model":"m","input":` + many(`{}`) + "}"},
		"parts of one": {Responses, `{"model":"m","input":[{"role":"user","content":` + many(`{"type":"input_text","text":"a"}`) + "}]}"},
	} {
		cfg := textModel(map[string]string{"chat_template": "chatml"}, "text_input")
		m, bad := Map(cfg)
		if bad != nil {
			t.Fatal(bad)
		}
		body := []byte(c.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if r, bad := Parse(c.route, body); bad == nil {
			if calls, bad := r.Calls(m); bad == nil {
				_ = calls.JSON(0)
			}
		}
		runtime.ReadMemStats(&after)
		// What has grown piece by piece has been allocated several times, and is held once.
		if got, most := int64(after.TotalAlloc-before.TotalAlloc), 5*Weight(body); got > most {
			t.Errorf("%s: %d bytes were allocated for a body of %d, want at most %d", name, got, len(body), most)
		}
	}
}

func TestWeightOfText(t *testing.T) {
	for text, want := range map[string]int64{
		`{}`: 2, `"a,b[{"`: 1, `"\"," `: 1, `[1,[2,{"a":"\\",""`: 7, ``: 1, `"\`: 1,
	} {
		if got := Weight([]byte(text)) - 2*int64(len(text)); got != want*valueBytes {
			t.Errorf("%s: %d values, want %d", text, got/valueBytes, want)
		}
	}
}
