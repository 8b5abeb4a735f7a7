package repotest

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files of the exported surface")

// public lists the packages whose exported surface others build on; each has a
// golden file in api/, so that a change of it shows as a diff.
var public = []string{".", "backend", "backend/backendtest", "client", "tensor"}

func TestExportedSurface(t *testing.T) {
	for _, pkg := range public {
		name := strings.ReplaceAll(pkg, "/", "_")
		if pkg == "." {
			name = "neso"
		}
		t.Run(name, func(t *testing.T) {
			got := surface(t, filepath.Join(root(t), pkg))
			golden := filepath.Join(root(t), "api", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got == string(want) {
				return
			}
			old, now := strings.Split(string(want), "\n\n"), strings.Split(got, "\n\n")
			for _, d := range old {
				if !slices.Contains(now, d) {
					t.Errorf("gone or changed: %s", d)
				}
			}
			for _, d := range now {
				if !slices.Contains(old, d) {
					t.Errorf("new: %s", d)
				}
			}
			t.Error("if that is meant: go test ./internal/repotest -run ExportedSurface -update")
		})
	}
}

// surface renders the exported declarations of the package in dir, sorted.
func surface(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var decls []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0) // without comments: they may change
		if err != nil {
			t.Fatal(err)
		}
		if !ast.FileExports(file) {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
				if f.Recv != nil && !exportedReceiver(f.Recv.List[0].Type) {
					continue
				}
			}
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			var b bytes.Buffer
			if err := printer.Fprint(&b, fset, d); err != nil {
				t.Fatal(err)
			}
			decls = append(decls, dense(b.String()))
		}
	}
	slices.Sort(decls)
	return strings.Join(slices.Compact(decls), "\n\n") + "\n"
}

// dense drops empty lines and alignment, which change with comments and
// unexported parts.
func dense(decl string) string {
	var lines []string
	for line := range strings.SplitSeq(decl, "\n") {
		words := strings.Join(strings.Fields(line), " ")
		if words == "" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, "\t"))
		lines = append(lines, strings.Repeat("\t", indent)+words)
	}
	return strings.Join(lines, "\n")
}

func exportedReceiver(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exportedReceiver(e.X)
	case *ast.IndexExpr:
		return exportedReceiver(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return false
}
