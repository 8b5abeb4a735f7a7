package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
)

// IndexEntry is one version of a model in the server's repository. Version and
// State are empty for a model that was never loaded.
type IndexEntry struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Index lists the models of the repository; with ready only those that are ready.
func (c *Client) Index(ctx context.Context, ready bool) ([]IndexEntry, error) {
	text, err := c.call(ctx, http.MethodPost, "/v2/repository/index", map[string]bool{"ready": ready})
	if err != nil {
		return nil, err
	}
	var list []IndexEntry
	return list, json.Unmarshal(text, &list)
}

// Override replaces what the repository says of a model that is loaded.
type Override struct {
	// Config is the configuration as JSON.
	Config string
	// Files are the model's files by path below its directory, such as
	// "1/model.py"; they need Config.
	Files map[string][]byte
}

// Load loads or reloads a model and returns when it is ready. o may be nil.
func (c *Client) Load(ctx context.Context, model string, o *Override) error {
	parameters := map[string]string{}
	if o != nil {
		if o.Config != "" {
			parameters["config"] = o.Config
		}
		for path, content := range o.Files {
			parameters["file:"+path] = base64.StdEncoding.EncodeToString(content)
		}
	}
	_, err := c.call(ctx, http.MethodPost, repositoryPath(model, "load"), map[string]any{"parameters": parameters})
	return err
}

// Unload unloads a model; with dependents also the models an ensemble is made of.
// It returns before the model is gone.
func (c *Client) Unload(ctx context.Context, model string, dependents bool) error {
	body := map[string]any{"parameters": map[string]bool{"unload_dependents": dependents}}
	_, err := c.call(ctx, http.MethodPost, repositoryPath(model, "unload"), body)
	return err
}

func repositoryPath(model, action string) string {
	return "/v2/repository/models/" + url.PathEscape(model) + "/" + action
}

// LogSettings changes the settings named in change, none if it is empty, and
// returns all of them as JSON.
func (c *Client) LogSettings(ctx context.Context, change map[string]any) (json.RawMessage, error) {
	return c.settings(ctx, "/v2/logging", change)
}

// TraceSettings changes the trace settings named in change of a model, or of
// the server for model "", and returns all of them as JSON. A nil value clears
// a setting.
func (c *Client) TraceSettings(ctx context.Context, model string, change map[string]any) (json.RawMessage, error) {
	path := "/v2/trace/setting"
	if model != "" {
		path = modelPath(model, "") + "/trace/setting"
	}
	return c.settings(ctx, path, change)
}

func (c *Client) settings(ctx context.Context, path string, change map[string]any) (json.RawMessage, error) {
	if len(change) == 0 {
		return c.call(ctx, http.MethodGet, path, nil)
	}
	return c.call(ctx, http.MethodPost, path, change)
}
