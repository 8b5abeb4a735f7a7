package repotest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDependenciesHaveAReason: docs/dependencies.md has a line for each direct
// requirement.
func TestDependenciesHaveAReason(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	text := read(t, "docs/dependencies.md")
	n := 0
	for _, r := range mod.Require {
		if r.Indirect {
			continue
		}
		n++
		if !strings.Contains(text, "`"+r.Path+"`") {
			t.Errorf("docs/dependencies.md does not say why %s is needed", r.Path)
		}
	}
	if n == 0 {
		t.Error("no direct requirement seen: the test is broken")
	}
	tools := read(t, "tools/go.mod") + read(t, "tools/release/go.mod") + read(t, "tools/collector/go.mod")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z.]+/[^`]+)`").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(out), `"`+m[1]+`"`) && !strings.Contains(tools, m[1]) {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not", m[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestArchitectureNamesWhatExists: each `package.Symbol` in the request path of
// docs/architecture.md is a function, method or type of ours.
func TestArchitectureNamesWhatExists(t *testing.T) {
	text := read(t, "docs/architecture.md")
	rows := regexp.MustCompile(`(?m)^\| [1-7] \| (.*?) \|`).FindAllStringSubmatch(text, -1)
	if len(rows) != 7 {
		t.Fatalf("the table of hops has %d rows, want 7", len(rows))
	}
	for _, row := range rows {
		for _, m := range regexp.MustCompile("`([a-z/]+)\\.([A-Za-z.]+)`").FindAllStringSubmatch(row[1], -1) {
			if !declared(t, m[1], m[2]) {
				t.Errorf("docs/architecture.md names %s.%s, which is not declared", m[1], m[2])
			}
		}
	}
}

// TestArchitectureHasEveryPackage compares the table of rows in docs/architecture.md
// with the lists in imports_test.go: each package of rows is named, and the row of
// the backends names what they may import.
func TestArchitectureHasEveryPackage(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/architecture.md"), "| row |")
	table, _, found := strings.Cut(table, "\n\n")
	if !found {
		t.Fatal("docs/architecture.md has no table of rows")
	}
	table, last, found := strings.Cut(table, "| 8 backends |")
	if !found {
		t.Fatal("docs/architecture.md has no row of backends")
	}
	above, seen := packagesNamed(table), packagesNamed(last)
	for _, row := range rows {
		if name := strings.TrimSuffix(row, "/..."); name != "." && !above[name] {
			t.Errorf("docs/architecture.md has no %s in its rows", name)
		}
	}
	for _, name := range backends {
		if !seen[name] {
			t.Errorf("docs/architecture.md does not say that backends see %s", name)
		}
	}
	for name := range seen {
		if name != "backend/..." && name != "cli" && !contains(backends, name) {
			t.Errorf("docs/architecture.md says that backends see %s", name)
		}
	}
}

// packagesNamed returns what stands in backticks; a/{b,c} are two.
func packagesNamed(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/.]+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(m[2], ",") {
			all[m[1]+name] = true
		}
	}
	return all
}

// declared reports whether Symbol or Type.Method exists in a package, given by
// the end of its path.
func declared(t *testing.T, path, symbol string) bool {
	t.Helper()
	for _, dir := range []string{path, "internal/" + path} {
		files, _ := filepath.Glob(filepath.Join(root(t), dir, "*.go"))
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if names(d)[symbol] {
					return true
				}
			}
		}
	}
	return false
}

func names(d ast.Decl) map[string]bool {
	all := map[string]bool{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			typ := d.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if id, ok := typ.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		all[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			all[ts.Name.Name] = true
			if it, ok := ts.Type.(*ast.InterfaceType); ok {
				for _, m := range it.Methods.List {
					for _, n := range m.Names {
						all[ts.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
	return all
}

// TestPackageComments: every package says what it owns.
func TestPackageComments(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}|{{.Doc}}|{{len .GoFiles}}", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if f[1] == "" && f[len(f)-1] != "0" {
			t.Errorf("%s has no package comment", f[0])
		}
	}
}
