// Package chart tests the manifests in deploy: the Helm chart by Helm's own code, all
// of them against Kubernetes' schemas and those of the operators that they are for.
// It is a module of its own, so that the server's has none of these dependencies.
// Open chart_test.go first, then schema_test.go.
package chart

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

var update = flag.Bool("update", false, "write the golden renders anew")

const chartDir = "../../deploy/helm/neso"

// rendering is what Helm is asked for beside the values.
type rendering struct{ release, kubernetes string }

// render returns the manifests that Helm makes of values.
func render(values string, how rendering) (string, error) {
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		return "", err
	}
	chart, err := loader.Load(chartDir)
	if err != nil {
		return "", err
	}
	if how.release == "" {
		how.release = "neso"
	}
	if how.kubernetes == "" {
		how.kubernetes = "v1.37.1"
	}
	capabilities := common.DefaultCapabilities.Copy()
	version, err := common.ParseKubeVersion(how.kubernetes)
	if err != nil {
		return "", err
	}
	capabilities.KubeVersion = *version
	release := common.ReleaseOptions{Name: how.release, Namespace: "models", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, given, release, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&b, "---\n# %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
		}
	}
	return b.String(), nil
}

// objects decodes a stream of manifests.
func objects(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var all []map[string]any
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one map[string]any
		switch err := d.Decode(&one); err {
		case nil:
		case io.EOF:
			return all
		default:
			t.Fatal(err)
		}
		if one != nil {
			all = append(all, one)
		}
	}
}

// find returns the one object of a kind.
func find(t *testing.T, text, kind string) map[string]any {
	t.Helper()
	for _, o := range objects(t, []byte(text)) {
		if o["kind"] == kind {
			return o
		}
	}
	t.Fatalf("expected an object of kind %s in\n%s", kind, text)
	return nil
}

// at follows keys and indices.
func at(t *testing.T, from any, path ...any) any {
	t.Helper()
	for i, p := range path {
		switch v := from.(type) {
		case map[string]any:
			from = v[fmt.Sprint(p)]
		case []any:
			n, ok := p.(int)
			if !ok || n >= len(v) {
				t.Fatalf("expected an entry at %v, got %v", path[:i+1], v)
			}
			from = v[n]
		default:
			t.Fatalf("expected an object or a list at %v, got %v", path[:i], from)
		}
	}
	return from
}

func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no values")
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestLint(t *testing.T) {
	for _, file := range valueFiles(t) {
		values, err := common.ReadValues([]byte(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		linter := lint.RunAll(chartDir, values, "models", lint.WithKubeVersion(&common.KubeVersion{Version: "v1.37.1", Major: "1", Minor: "37"}))
		for _, m := range linter.Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", file, m)
			}
		}
	}
}

func TestGolden(t *testing.T) {
	for _, file := range valueFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got, err := render(read(t, file), rendering{})
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata/golden", filepath.Base(file))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, golden); got != want {
				t.Errorf("the chart renders %s otherwise than %s says (`make chart UPDATE=1` writes it anew):\n%s", file, golden, got)
			}
		})
	}
}

// The chart's version is that of its default image's only where a release sets it.
func TestImage(t *testing.T) {
	for values, want := range map[string]string{
		"":                              "neso-python:dev",
		"image: {tag: 1.2.3}":           "neso-python:1.2.3",
		"image: {repository: r.io/a/b}": "r.io/a/b:dev",
	} {
		got, err := render(values, rendering{})
		if err != nil {
			t.Fatal(err)
		}
		if image := at(t, find(t, got, "Deployment"), "spec", "template", "spec", "containers", 0, "image"); image != want {
			t.Errorf("%q: expected the image %s, got %v", values, want, image)
		}
	}
}
