package jsonwire

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// FuzzEvent: whatever a model answers, and whatever it calls its errors, is one
// server-sent event for the client, whose data is JSON: no text of a model can end
// an event early or begin another field.
func FuzzEvent(f *testing.F) {
	f.Add("a", "b", "c", false)
	f.Add("data: x\n\nevent: stop\r\n\r\n", "\n", "\r", false)
	f.Add("\xff\xfe\u2028\u2029\x00\x7f", `"}\n`, "</script>", true)
	f.Fuzz(func(t *testing.T, content, parameter, id string, failed bool) {
		resp := &backend.Response{
			Outputs: []tensor.Tensor{
				{Name: "OUT", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: tensor.AppendElement(nil, []byte(content))},
				{Name: "N\n", Datatype: tensor.Int32, Shape: tensor.Shape{0}},
			},
			Parameters: []backend.Parameter{backend.String("p\r\n"+parameter, parameter)},
		}
		if failed {
			resp = &backend.Response{Err: backend.Errorf(backend.Internal, "%s", content)}
		}
		event, _ := AppendEvent([]byte("before"), &modelconfig.Config{Name: "m"}, id, 1, resp)
		data, ok := bytes.CutPrefix(event, []byte("beforedata: "))
		data, end := bytes.CutSuffix(data, []byte("\n\n"))
		if !ok || !end || bytes.ContainsAny(data, "\r\n") {
			t.Fatalf("%q is not one event", event)
		}
		if !failed && !utf8.ValidString(content+" "+parameter+" "+id) {
			return // elements go out as they are, as the peer's do
		}
		var twin map[string]any
		if err := json.Unmarshal(data, &twin); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if got := twin["OUT"]; !failed && got != content {
			t.Errorf("%q became %q", content, got)
		}
	})
}
