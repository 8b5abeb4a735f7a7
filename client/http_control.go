package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
)

func (h *overHTTP) serverMetadata(ctx context.Context) (json.RawMessage, error) {
	return h.call(ctx, http.MethodGet, "/v2", nil)
}

func (h *overHTTP) modelMetadata(ctx context.Context, model, version string) (json.RawMessage, error) {
	return h.call(ctx, http.MethodGet, modelPath(model, version), nil)
}

func (h *overHTTP) modelConfig(ctx context.Context, model, version string) (json.RawMessage, error) {
	return h.call(ctx, http.MethodGet, modelPath(model, version)+"/config", nil)
}

func (h *overHTTP) statistics(ctx context.Context, model, version string) (json.RawMessage, error) {
	if model == "" {
		return h.call(ctx, http.MethodGet, "/v2/models/stats", nil)
	}
	return h.call(ctx, http.MethodGet, modelPath(model, version)+"/stats", nil)
}

func (h *overHTTP) index(ctx context.Context, ready bool) ([]IndexEntry, error) {
	list, err := read[[]IndexEntry](h.call(ctx, http.MethodPost, "/v2/repository/index", map[string]bool{"ready": ready}))
	if err != nil {
		return nil, err
	}
	return *list, nil
}

func (h *overHTTP) load(ctx context.Context, model string, o *Override) error {
	parameters := map[string]string{}
	if o.Config != "" {
		parameters["config"] = o.Config
	}
	for path, content := range o.Files {
		parameters["file:"+path] = base64.StdEncoding.EncodeToString(content)
	}
	_, err := h.call(ctx, http.MethodPost, repositoryPath(model, "load"), map[string]any{"parameters": parameters})
	return err
}

func (h *overHTTP) unload(ctx context.Context, model string, dependents bool) error {
	body := map[string]any{"parameters": map[string]bool{"unload_dependents": dependents}}
	_, err := h.call(ctx, http.MethodPost, repositoryPath(model, "unload"), body)
	return err
}

func repositoryPath(model, action string) string {
	return "/v2/repository/models/" + escaped(model) + "/" + action
}

func (h *overHTTP) logSettings(ctx context.Context, change map[string]any) (json.RawMessage, error) {
	return h.settings(ctx, "/v2/logging", change)
}

func (h *overHTTP) rollout(ctx context.Context, model string, change json.RawMessage) (json.RawMessage, error) {
	if change == nil {
		return h.call(ctx, http.MethodGet, repositoryPath(model, "rollout"), nil)
	}
	return h.call(ctx, http.MethodPost, repositoryPath(model, "rollout"), change)
}

func (h *overHTTP) traceSettings(ctx context.Context, model string, change map[string]any) (json.RawMessage, error) {
	path := "/v2/trace/setting"
	if model != "" {
		path = modelPath(model, "") + "/trace/setting"
	}
	return h.settings(ctx, path, change)
}

func (h *overHTTP) settings(ctx context.Context, path string, change map[string]any) (json.RawMessage, error) {
	if len(change) == 0 {
		return h.call(ctx, http.MethodGet, path, nil)
	}
	return h.call(ctx, http.MethodPost, path, change)
}

// regionPath is the way to a region, or to all of a kind for the name "".
func regionPath(kind regionKind, name, action string) string {
	path := "/v2/systemsharedmemory"
	if kind == cudaMemory {
		path = "/v2/cudasharedmemory"
	}
	if name != "" {
		path += "/region/" + url.PathEscape(name)
	}
	return path + "/" + action
}

func (h *overHTTP) registerSystem(ctx context.Context, r *SystemRegion) error {
	body := map[string]any{"key": r.Key, "offset": r.Offset, "byte_size": r.Size}
	_, err := h.call(ctx, http.MethodPost, regionPath(systemMemory, r.Name, "register"), body)
	return err
}

func (h *overHTTP) registerCUDA(ctx context.Context, r *CUDARegion, handle []byte) error {
	raw := map[string]string{"b64": base64.StdEncoding.EncodeToString(handle)}
	body := map[string]any{"raw_handle": raw, "device_id": r.Device, "byte_size": r.Size}
	_, err := h.call(ctx, http.MethodPost, regionPath(cudaMemory, r.Name, "register"), body)
	return err
}

func (h *overHTTP) unregister(ctx context.Context, kind regionKind, name string) error {
	_, err := h.call(ctx, http.MethodPost, regionPath(kind, name, "unregister"), nil)
	return err
}

func (h *overHTTP) systemRegions(ctx context.Context, name string) ([]SystemRegion, error) {
	list, err := read[[]SystemRegion](h.call(ctx, http.MethodGet, regionPath(systemMemory, name, "status"), nil))
	if err != nil {
		return nil, err
	}
	return *list, nil
}

func (h *overHTTP) cudaRegions(ctx context.Context, name string) ([]CUDARegion, error) {
	list, err := read[[]CUDARegion](h.call(ctx, http.MethodGet, regionPath(cudaMemory, name, "status"), nil))
	if err != nil {
		return nil, err
	}
	return *list, nil
}
