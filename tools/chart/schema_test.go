package chart

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// modules have the schemas. Only their files are read: they are no dependencies.
var modules = []string{
	"k8s.io/kubernetes@v1.37.1", "sigs.k8s.io/gateway-api@v1.4.1", "github.com/kedacore/keda/v2@v2.21.0",
	"github.com/prometheus-operator/prometheus-operator@v0.85.0", "github.com/kserve/kserve@v0.19.0",
}

// definitions are the files with the CRDs in them.
var definitions = []string{
	"sigs.k8s.io/gateway-api@v1.4.1/config/crd/standard/*.yaml", "github.com/kedacore/keda/v2@v2.21.0/config/crd/bases/*.yaml",
	"github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/*.yaml",
	"github.com/kserve/kserve@v0.19.0/config/crd/full/*.yaml",
}

// others have no Go module with their schema.
var others = []string{"cert-manager.io/v1/Certificate", "kustomize.config.k8s.io/v1beta1/Kustomization"}

// schemas are compiled schemas by apiVersion and kind.
type schemas struct {
	compiler *jsonschema.Compiler
	where    map[string]string // URLs
}

// cache downloads the modules and returns the directory of each.
var cache = sync.OnceValues(func() (map[string]string, error) {
	dirs := map[string]string{}
	for _, m := range modules {
		out, err := exec.Command("go", "mod", "download", "-json", m).Output()
		var told struct{ Dir, Error string }
		if json.Unmarshal(out, &told) != nil || told.Dir == "" {
			return nil, fmt.Errorf("module %s: %w %s", m, err, told.Error)
		}
		dirs[m] = told.Dir
	}
	return dirs, nil
})

func loadSchemas(t *testing.T) *schemas {
	t.Helper()
	dirs, err := cache()
	if err != nil {
		t.Fatal(err)
	}
	s := &schemas{compiler: jsonschema.NewCompiler(), where: map[string]string{}}
	s.builtin(t, filepath.Join(dirs["k8s.io/kubernetes@v1.37.1"], "api/openapi-spec/swagger.json"))
	for _, pattern := range definitions {
		at := strings.Index(pattern, "@")
		module := pattern[:at+strings.Index(pattern[at:], "/")]
		files, err := filepath.Glob(filepath.Join(dirs[module], strings.TrimPrefix(pattern, module)))
		if err != nil || len(files) == 0 {
			t.Fatalf("no definitions at %s: %v", pattern, err)
		}
		for _, file := range files {
			s.custom(t, file)
		}
	}
	return s
}

// builtin takes Kubernetes' own types from its OpenAPI description.
func (s *schemas) builtin(t *testing.T, file string) {
	t.Helper()
	var all struct {
		Definitions map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal([]byte(read(t, file)), &all); err != nil {
		t.Fatal(err)
	}
	for name, d := range all.Definitions {
		m := d.(map[string]any)
		strict(m)
		kinds, _ := m["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			gvk := k.(map[string]any)
			version := strings.TrimPrefix(fmt.Sprintf("%s/%s", gvk["group"], gvk["version"]), "/")
			s.where[version+"/"+fmt.Sprint(gvk["kind"])] = "mem:///kubernetes.json#/definitions/" + name
		}
		// Numbers and words both, which OpenAPI cannot say.
		if slices.Contains([]string{"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"}, name) {
			all.Definitions[name] = map[string]any{"type": []any{"string", "number"}}
		}
	}
	if err := s.compiler.AddResource("mem:///kubernetes.json", map[string]any{"definitions": all.Definitions}); err != nil {
		t.Fatal(err)
	}
}

// custom takes the types of a CustomResourceDefinition.
func (s *schemas) custom(t *testing.T, file string) {
	t.Helper()
	for _, o := range objects(t, []byte(read(t, file))) {
		if o["kind"] != "CustomResourceDefinition" {
			continue
		}
		for _, v := range at(t, o, "spec", "versions").([]any) {
			root := at(t, v, "schema", "openAPIV3Schema").(map[string]any)
			strict(root)
			// What every object has is described nowhere in a CRD.
			root["properties"].(map[string]any)["metadata"] = map[string]any{
				"$ref": "mem:///kubernetes.json#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
			}
			name := fmt.Sprintf("%s/%s/%s", at(t, o, "spec", "group"), at(t, v, "name"), at(t, o, "spec", "names", "kind"))
			s.where[name] = "mem:///" + name
			if err := s.compiler.AddResource(s.where[name], plain(t, root)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// plain is a value as a JSON decoder has it.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// strict changes a structural schema into one of JSON Schema that refuses fields which
// it does not know, as the API server does under strict validation.
func strict(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	properties, _ := m["properties"].(map[string]any)
	for _, p := range properties {
		strict(p)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		strict(m[key])
	}
	delete(m, "format") // int32 and the like, no formats of JSON Schema
	delete(m, "default")
	if m["x-kubernetes-int-or-string"] == true {
		delete(m, "anyOf")
		m["type"] = []any{"integer", "string"}
		delete(m, "pattern")
	}
	if kind, ok := m["type"].(string); ok && m["nullable"] == true {
		m["type"] = []any{kind, "null"}
	}
	if properties != nil && m["additionalProperties"] == nil && m["x-kubernetes-preserve-unknown-fields"] != true {
		m["additionalProperties"] = false
	}
}

// check returns what is wrong with an object.
func (s *schemas) check(t *testing.T, o map[string]any) error {
	t.Helper()
	name := fmt.Sprintf("%s/%s", o["apiVersion"], o["kind"])
	if slices.Contains(others, name) {
		return nil
	}
	where, ok := s.where[name]
	if !ok {
		return fmt.Errorf("no schema for %s", name)
	}
	schema, err := s.compiler.Compile(where)
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(plain(t, o))
}

func TestSchemas(t *testing.T) {
	s := loadSchemas(t)
	seen := map[string]bool{}
	files := []string{"../../deploy/kserve/*.yaml", "testdata/golden/*.yaml", "../../deploy/prometheus/operator.yaml"}
	for _, pattern := range files {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing at %s: %v", pattern, err)
		}
		for _, file := range found {
			for _, o := range objects(t, []byte(read(t, file))) {
				seen[fmt.Sprint(o["kind"])] = true
				if err := s.check(t, o); err != nil {
					t.Errorf("%s: %s %v: %v", file, o["kind"], at(t, o, "metadata", "name"), err)
				}
			}
		}
	}
	for _, kind := range []string{
		"ClusterServingRuntime", "Deployment", "GRPCRoute", "HTTPRoute", "HorizontalPodAutoscaler", "InferenceService", "NetworkPolicy",
		"PersistentVolumeClaim", "PodDisruptionBudget", "PrometheusRule", "ScaledObject", "Secret", "Service", "ServiceAccount",
		"ServiceMonitor", "ServingRuntime", "StatefulSet", "TrainedModel",
	} {
		if !seen[kind] {
			t.Errorf("expected an object of kind %s", kind)
		}
	}
}

// The schemas do refuse.
func TestSchemasRefuse(t *testing.T) {
	s := loadSchemas(t)
	for _, c := range []struct{ text, want string }{
		{"{apiVersion: v1, kind: Service, spec: {port: []}}", "additional properties 'port' not allowed"},
		{"{apiVersion: apps/v1, kind: Deployment, spec: {selector: {}, template: {}, replicas: a}}", "at '/spec/replicas'"},
		{"{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {triggers: []}}", "missing property 'scaleTargetRef'"},
		{"{apiVersion: gateway.networking.k8s.io/v1, kind: GRPCRoute, spec: {hosts: []}}", "additional properties 'hosts'"},
		{"{apiVersion: serving.kserve.io/v1alpha1, kind: ServingRuntime, spec: {containers: [{nme: a}]}}", "nme"},
		{"{apiVersion: serving.kserve.io/v1alpha1, kind: Runtime}", "no schema"},
	} {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(c.text), &o); err != nil {
			t.Fatal(err)
		}
		if err := s.check(t, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected %q, got %v", c.text, c.want, err)
		}
	}
}
