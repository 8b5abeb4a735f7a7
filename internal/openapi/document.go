package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig"
)

// protocol is the description without models: what the protocol has, whatever is
// loaded.
//
//go:embed protocol.json
var protocol []byte

// Server is what the description says of the server.
type Server struct {
	// Version is that of the interface.
	Version string
	// Keys says that requests need a key.
	Keys bool
	// OpenAI, if not nil, says that the server has OpenAI's routes, too.
	OpenAI *OpenAI
}

// object is a JSON object. Its members are written in the order of their names, so
// that the same models give the same document.
type object = map[string]any

// Document returns the description of a server that serves models, each in the
// version that serves who asks for none, as JSON. Inputs
// of more than exampleElements elements have no example, unless there is but one
// model.
func Document(server Server, models []*modelconfig.Config) ([]byte, error) {
	var doc object
	if err := json.Unmarshal(protocol, &doc); err != nil {
		return nil, fmt.Errorf("openapi: protocol.json: %w", err)
	}
	doc["info"] = object{
		"title": "Neso", "version": server.Version,
		"summary": "Inference server: Open Inference Protocol (KServe v2) with Triton's extensions",
		"description": "The models that are loaded have paths of their own, with the tensors that they take and an example each. " +
			"Models whose names do not stand in a URL as they are have none: gRPC serves them.",
		"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	}
	components := doc["components"].(object)
	if server.OpenAI != nil {
		if err := describeOpenAI(doc, server.OpenAI); err != nil {
			return nil, err
		}
	}
	if server.Keys {
		components["securitySchemes"] = object{
			"bearer": object{"type": "http", "scheme": "bearer"},
			"key":    object{"type": "apiKey", "in": "header", "name": "X-Api-Key"},
		}
		doc["security"] = []any{object{"bearer": []any{}}, object{"key": []any{}}}
	}
	paths, schemas := doc["paths"].(object), components["schemas"].(object)
	models = slices.Clone(models)
	slices.SortStableFunc(models, func(a, b *modelconfig.Config) int { return strings.Compare(a.Name, b.Name) })
	models = slices.CompactFunc(models, func(a, b *modelconfig.Config) bool { return a.Name == b.Name }) // some are asked for twice
	limit := exampleElements
	if len(models) == 1 {
		limit = loneExampleElements
	}
	for i, cfg := range models {
		if !reachable(cfg.Name) {
			continue
		}
		m := describe(cfg, i, limit)
		for name, schema := range m.schemas {
			schemas[name] = schema
		}
		for suffix, post := range m.operations {
			paths["/v2/models/"+cfg.Name+suffix] = object{"post": post}
		}
	}
	return json.Marshal(doc)
}

// reachable reports whether a path can have the name of a model: names are looked up as
// they stand there, and what a URL does not have as it is (RFC 3986, pchar) would come
// escaped.
func reachable(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		letter := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		return !letter && !strings.ContainsRune("-._~!$&'()*+,;=:@", r)
	}) < 0
}
