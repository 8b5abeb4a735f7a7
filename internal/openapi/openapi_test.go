package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func document(t *testing.T, models ...*modelconfig.Config) (doc map[string]any, raw []byte) {
	t.Helper()
	raw, err := Document(Server{Version: "2.51.0"}, models)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Document(Server{Version: "2.51.0"}, models)
	if err != nil || !bytes.Equal(raw, again) {
		t.Fatalf("the same models gave another document, or %v", err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc, raw
}

func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok || m[p] == nil {
			t.Fatalf("nothing at %s of %s", p, path)
		}
		v = m[p]
	}
	return v
}

func model(name string, dims ...int64) *modelconfig.Config {
	return &modelconfig.Config{
		Name: name, Inputs: []modelconfig.Input{{Name: "X", Datatype: tensor.FP32, Dims: dims}},
		Outputs: []modelconfig.Output{{Name: "Y", Datatype: tensor.Int64, Dims: dims}},
	}
}

func example(t *testing.T, doc any, path string) any {
	t.Helper()
	media := at(t, doc, "paths", path, "post", "requestBody", "content", "application/json")
	return media.(map[string]any)["example"]
}

func TestExamples(t *testing.T) {
	batched := model("batched", -1, 2)
	batched.MaxBatchSize = 8
	stateful := model("stateful", 1)
	stateful.Sequence = &modelconfig.SequenceBatching{
		Controls: []modelconfig.SequenceControl{{Kind: "CONTROL_SEQUENCE_CORRID", Datatype: tensor.Bytes}},
	}
	half := model("half", 1)
	half.Inputs[0].Datatype = tensor.FP16
	optional := model("optional", 1)
	optional.Inputs = append(optional.Inputs, modelconfig.Input{Name: "Z", Datatype: tensor.Bytes, Dims: tensor.Shape{1}, Optional: true})
	free := model("free", 1)
	free.Inputs[0].Optional = true
	free.Inputs[0].Datatype = tensor.Bool
	for _, c := range []struct {
		cfg             *modelconfig.Config
		infer, generate string
	}{
		{model("m", 2), `{"inputs":[{"data":[0,0],"datatype":"FP32","name":"X","shape":[2]}]}`, `{"X":[0,0]}`},
		{batched, `{"inputs":[{"data":[0,0],"datatype":"FP32","name":"X","shape":[1,1,2]}]}`, `{"X":[0,0]}`},
		{
			stateful,
			`{"inputs":[{"data":[0],"datatype":"FP32","name":"X","shape":[1]}],` +
				`"parameters":{"sequence_end":true,"sequence_id":"one","sequence_start":true}}`,
			``, // no member of flat JSON names a sequence
		},
		{half, `null`, `null`},
		{optional, `{"inputs":[{"data":[0],"datatype":"FP32","name":"X","shape":[1]}]}`, `{"X":[0]}`},
		{free, `{"inputs":[{"data":[false],"datatype":"BOOL","name":"X","shape":[1]}]}`, `{"X":[false]}`},
		{model("large", loneExampleElements+1), `null`, `null`},
		{model("huge", 1<<40, 1<<40), `null`, `null`},
		{model("scalar"), `{"inputs":[{"data":[0],"datatype":"FP32","name":"X","shape":[]}]}`, `{"X":[0]}`},
		{model("empty", 0, 1<<62), `null`, `null`},
	} {
		doc, _ := document(t, c.cfg)
		for verb, want := range map[string]string{"infer": c.infer, "generate": c.generate, "generate_stream": c.generate} {
			if want == "" {
				if at(t, doc, "paths").(map[string]any)["/v2/models/"+c.cfg.Name+"/"+verb] != nil {
					t.Errorf("%s of %s is described", verb, c.cfg.Name)
				}
				continue
			}
			got, _ := json.Marshal(example(t, doc, "/v2/models/"+c.cfg.Name+"/"+verb))
			if string(got) != want {
				t.Errorf("%s of %s has the example\n%s, want\n%s", verb, c.cfg.Name, got, want)
			}
		}
	}
}

func TestDecoupledModelsStream(t *testing.T) {
	cfg := model("d", 1)
	cfg.Decoupled = true
	doc, raw := document(t, cfg)
	at(t, doc, "paths", "/v2/models/d/generate_stream", "post")
	if strings.Contains(string(raw), `"/v2/models/d/infer"`) || strings.Contains(string(raw), `"/v2/models/d/generate"`) {
		t.Error("a decoupled model has requests for one response")
	}
}

// TestNamesOfModels: whatever a model is called, it has paths if a URL can have its
// name, its schemas have their own names, and every reference leads to something.
func TestNamesOfModels(t *testing.T) {
	names := []string{
		"a", "a b", "a-b", "a.b", "a_b", "it's", `<script>"'`, "ä", "%41", "a{model}", "\u202eevil", "model0_a", strings.Repeat("x", 4000),
	}
	var models []*modelconfig.Config
	for _, name := range names {
		models = append(models, model(name, 1))
	}
	doc, raw := document(t, models...)
	if bytes.Contains(raw, []byte("<script>")) {
		t.Error("markup is not escaped")
	}
	for _, name := range []string{"a", "a-b", "a.b", "a_b", "it's", "model0_a"} {
		at(t, doc, "paths", "/v2/models/"+name+"/infer", "post")
	}
	for path := range at(t, doc, "paths").(map[string]any) {
		if strings.ContainsAny(path, "% <\"ä") || strings.Contains(path, "a{") {
			t.Errorf("%s is described, and no URL has it", path)
		}
	}
	ids := map[string]string{}
	for path, methods := range at(t, doc, "paths").(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			id := at(t, operation, "operationId").(string)
			if other, taken := ids[id]; taken {
				t.Errorf("%s %s and %s have the id %s", method, path, other, id)
			}
			ids[id] = path
		}
	}
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				at(t, doc, strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
			}
			for _, e := range v {
				look(e)
			}
		}
	}
	look(doc)
}

// TestManyModels: the document grows by the models alone, whose long examples stay out.
func TestManyModels(t *testing.T) {
	var models []*modelconfig.Config
	for i := range 1000 {
		models = append(models, model(fmt.Sprint("m", i), exampleElements+1))
	}
	if _, raw := document(t, models...); len(raw) > 1000*8<<10 {
		t.Errorf("a thousand models take %d bytes", len(raw))
	}
}

func TestKeys(t *testing.T) {
	raw, err := Document(Server{Version: "1", Keys: true}, nil)
	if err != nil || !bytes.Contains(raw, []byte(`"securitySchemes"`)) {
		t.Errorf("a server that asks for keys does not say so: %v", err)
	}
	if raw, _ = Document(Server{Version: "1"}, nil); bytes.Contains(raw, []byte(`"securitySchemes"`)) {
		t.Error("a server that asks for no keys does")
	}
}

func TestViewer(t *testing.T) {
	for path, kind := range map[string]string{"/docs": "text/html", "/docs/view.js": "text/javascript", "/docs/view.css": "text/css"} {
		page, ok := Viewer(path)
		if !ok || !strings.HasPrefix(page.ContentType, kind) || len(page.Body) == 0 {
			t.Errorf("%s is %v of %s", path, ok, page.ContentType)
		}
		if bytes.Contains(page.Body, []byte("http://")) || bytes.Contains(page.Body, []byte("https://")) {
			t.Errorf("%s names another server", path)
		}
	}
	if _, ok := Viewer("/docs/"); ok {
		t.Error("/docs/ is a page, too")
	}
}

// OpenAI's routes are there where they are asked for, with the models that each is for.
func TestOpenAIsRoutes(t *testing.T) {
	plain, _ := document(t, model("m", 1))
	if paths := at(t, plain, "paths").(map[string]any); paths["/v1/models"] != nil {
		t.Error("they are described on a server that has none")
	}
	raw, err := Document(Server{Version: "1", OpenAI: &OpenAI{Chats: []string{"<b>", "talks"}, Embeddings: []string{"e"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]string{
		"OpenAIChatModel": "[<b> talks]", "OpenAIEmbeddingsModel": "[e]", "OpenAICompletionModel": "<nil>",
	} {
		if got := fmt.Sprint(at(t, doc, "components", "schemas", schema).(map[string]any)["enum"]); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	if got := fmt.Sprint(example(t, doc, "/v1/embeddings")); got != "map[input:[Once upon a time] model:e]" {
		t.Errorf("example: %s", got)
	}
}
