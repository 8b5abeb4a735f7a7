package target

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/perf/wire"
)

type overHTTP struct{ c *client.Client }

// HTTP asks over HTTP.
func HTTP(c *client.Client) API { return &overHTTP{c} }

func (h *overHTTP) Server(ctx context.Context) ([]byte, error) { return h.c.ServerMetadata(ctx) }

func (h *overHTTP) Metadata(ctx context.Context, model, version string) ([]byte, error) {
	return h.get(ctx, wire.ModelPath(model, version))
}

func (h *overHTTP) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.c.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, h.c.Header)
	do := http.DefaultClient
	if h.c.HTTP != nil {
		do = h.c.HTTP
	}
	resp, err := do.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxText))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		var answer struct{ Error string }
		if json.Unmarshal(text, &answer) != nil || answer.Error == "" {
			answer.Error = fmt.Sprintf("HTTP status %d: %.200s", resp.StatusCode, text)
		}
		return nil, &client.Error{Status: resp.StatusCode, Message: answer.Error}
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("%s is no server of the KServe v2 protocol: its answer is empty, as those of a port for metrics are", h.c.URL)
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%s is no server of the KServe v2 protocol: its answer is no JSON, it begins with %.60q", h.c.URL, text)
	}
	return text, nil
}

// maxText bounds an answer, in bytes.
const maxText = 64 << 20

func (h *overHTTP) Config(ctx context.Context, model, version string) ([]byte, error) {
	return h.c.ModelConfig(ctx, model, version)
}

func (h *overHTTP) Statistics(ctx context.Context, model, version string) ([]byte, error) {
	return h.c.Statistics(ctx, model, version)
}

func (h *overHTTP) Register(ctx context.Context, name, key string, size int64) error {
	return h.c.RegisterSystemSharedMemory(ctx, name, key, 0, size)
}

func (h *overHTTP) Unregister(ctx context.Context, name string) error {
	return h.c.UnregisterSystemSharedMemory(ctx, name)
}

func (h *overHTTP) Trace(ctx context.Context, model string, settings map[string][]string) error {
	body := map[string]any{}
	for name, values := range settings {
		body[name] = values
		if name != "trace_level" {
			body[name] = values[0]
		}
	}
	_, err := h.c.TraceSettings(ctx, model, body)
	return err
}

func (h *overHTTP) Close() error { return nil }
