package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
)

// routes is the description of OpenAI's routes without models.
//
//go:embed openai.json
var routes []byte

// OpenAI is what OpenAI's routes of a server are for: the names of the models that each
// of them has, in their order.
type OpenAI struct {
	Completions, Chats, Embeddings []string
}

// describeOpenAI adds the routes to doc.
func describeOpenAI(doc object, o *OpenAI) error {
	var more struct {
		Tags                      []any
		Paths, Responses, Schemas object
	}
	if err := json.Unmarshal(routes, &more); err != nil {
		return fmt.Errorf("openapi: openai.json: %w", err)
	}
	doc["tags"] = append(doc["tags"].([]any), more.Tags...)
	components := doc["components"].(object)
	for to, from := range map[string]object{"responses": more.Responses, "schemas": more.Schemas} {
		maps.Copy(components[to].(object), from)
	}
	maps.Copy(doc["paths"].(object), more.Paths)
	words := "Once upon a time"
	for _, r := range []struct {
		path, schema string
		models       []string
		member       string
		value        any
	}{
		{"/v1/completions", "OpenAICompletionModel", o.Completions, "prompt", words},
		{"/v1/chat/completions", "OpenAIChatModel", o.Chats, "messages", []any{object{"role": "user", "content": words}}},
		{"/v1/responses", "OpenAIChatModel", o.Chats, "input", words},
		{"/v1/embeddings", "OpenAIEmbeddingsModel", o.Embeddings, "input", []any{words}},
	} {
		schema := object{"type": "string", "description": "A model of GET /v1/models"}
		components["schemas"].(object)[r.schema] = schema
		if len(r.models) == 0 {
			continue
		}
		names := make([]any, len(r.models))
		for i, name := range r.models {
			names[i] = name
		}
		schema["enum"] = names
		post := more.Paths[r.path].(object)["post"].(object)
		media := post["requestBody"].(object)["content"].(object)["application/json"].(object)
		media["example"] = object{"model": r.models[0], r.member: r.value}
	}
	return nil
}
