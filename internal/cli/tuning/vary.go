package tuning

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/tune/knobs"
)

// vary reads FIELD=VALUE|VALUE. A value is JSON, or else a text; those of parameters are
// texts.
func vary(text string) (*knobs.Field, error) {
	name, values, ok := strings.Cut(text, "=")
	if !ok || name == "" || values == "" {
		return nil, fmt.Errorf("--vary: expected FIELD=VALUE|VALUE..., found %q", text)
	}
	f := &knobs.Field{Name: name}
	for v := range strings.SplitSeq(values, "|") {
		raw := json.RawMessage(v)
		if !json.Valid(raw) || strings.HasPrefix(name, edit.ParameterPrefix) && v != "null" && !strings.HasPrefix(v, `"`) {
			raw, _ = json.Marshal(v) //nolint:errchkjson // a text
		}
		if _, err := edit.Text(nil, "", []edit.Change{{Field: name, Value: raw}}); err != nil {
			return nil, fmt.Errorf("--vary: %w", err)
		}
		f.Values = append(f.Values, raw)
	}
	return f, nil
}
