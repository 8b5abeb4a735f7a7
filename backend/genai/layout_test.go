package genai

import (
	"strings"
	"testing"
)

func TestAlone(t *testing.T) {
	const head, tail = `{"model": {"type": "llama", "context_length": 9, "vocab_size": 9, "decoder": {"filename": "m.onnx"`, `}`
	const shared = `, "search": {"past_present_share_buffer": true}`
	const whole = `, "sliding_window": {"window_size": 4, "slide_key_value_cache": false, "slide_inputs": false, "layers": `
	for _, c := range []struct{ rest, why string }{
		{`}}` + shared, ""},
		{`, "session_options": {"log_id": "x", "intra_op_num_threads": 2, "provider_options": []}}}` + shared, ""},
		{`, "session_options": {"provider_options": [{"CPU": {}}]}}}` + shared, ""},
		{`}}`, "past_present_share_buffer is not true"},
		{`, "session_options": {"provider_options": [{"cuda": {}}]}}}` + shared, "it runs on 'cuda'"},
		{`, "session_options": {"provider_options": 5}}}` + shared, "are not understood"},
		{`, "session_options": {"custom_ops_library": "x"}}}` + shared, "has 'custom_ops_library'"},
		{`, "sliding_window": {"window_size": 4}}}` + shared, "'model.decoder.sliding_window'"},
		{`}, "draft": {}}` + shared, "'model.draft'"},
		{whole + `[]}}}` + shared, ""},
		{whole + `[1]}}}` + shared, "a part of the text"},
		{`}, "type": "phi3"}` + shared, ""},
		{`}, "type": "phi3", "context_length": 131072}` + shared, "of a 'phi3' changes"},
	} {
		s, err := parseSettings([]byte(head + c.rest + tail))
		if err != nil {
			t.Fatalf("%s: %v", c.rest, err)
		}
		switch why := s.alone(); {
		case c.why == "" && why != nil, c.why != "" && (why == nil || !strings.Contains(why.Error(), c.why)):
			t.Errorf("%s: %v, want %q", c.rest, why, c.why)
		}
	}
}
