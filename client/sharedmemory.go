package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Region is a place in shared memory that the server knows by a name, for a
// client on its machine.
type Region struct {
	// Name is the one of RegisterSystemSharedMemory.
	Name string
	// Offset and Size are bytes within what was registered.
	Offset, Size int64
}

func (r *Region) parameters() map[string]any {
	return map[string]any{"shared_memory_region": r.Name, "shared_memory_offset": r.Offset, "shared_memory_byte_size": r.Size}
}

// SystemRegion is a region that is registered.
type SystemRegion struct {
	Name   string `json:"name"`
	Key    string `json:"key"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"byte_size"`
}

// RegisterSystemSharedMemory makes size bytes at offset of the object /dev/shm/key
// known to the server as name. The client makes the object, fills it, and removes
// it when it is unregistered.
func (c *Client) RegisterSystemSharedMemory(ctx context.Context, name, key string, offset, size int64) error {
	body := map[string]any{"key": key, "offset": offset, "byte_size": size}
	_, err := c.call(ctx, http.MethodPost, "/v2/systemsharedmemory/region/"+url.PathEscape(name)+"/register", body)
	return err
}

// UnregisterSystemSharedMemory makes the server forget a region; requests that use
// it go on. The name "" stands for all regions, those of other clients too.
func (c *Client) UnregisterSystemSharedMemory(ctx context.Context, name string) error {
	path := "/v2/systemsharedmemory"
	if name != "" {
		path += "/region/" + url.PathEscape(name)
	}
	_, err := c.call(ctx, http.MethodPost, path+"/unregister", nil)
	return err
}

// SystemSharedMemory lists what is registered.
func (c *Client) SystemSharedMemory(ctx context.Context) ([]SystemRegion, error) {
	text, err := c.call(ctx, http.MethodGet, "/v2/systemsharedmemory/status", nil)
	if err != nil {
		return nil, err
	}
	var list []SystemRegion
	return list, json.Unmarshal(text, &list)
}
