package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// goSources calls visit for each Go file.
func goSources(t *testing.T, visit func(path string, text []byte, files *token.FileSet, file *ast.File)) {
	t.Helper()
	sources(t, func(path string, text []byte) {
		if filepath.Ext(path) != ".go" {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		visit(path, text, files, file)
	})
}

func generated(path string) bool { return exempt[filepath.ToSlash(filepath.Dir(path))] == "generated" }

// maxFunction is how many lines a function may have, without those of tables.
const maxFunction = 80

// longTests are functions of tests with a row for each kind of thing: one would look
// for a row in several places otherwise.
var longTests = map[string]string{
	"backend/internal/worker/wire/golden_test.go goldenFrames": "a frame of each kind",
	"backend/internal/worker/wire/golden_test.go describe":     "a case for each kind of frame",
	"internal/scheduler/dynamic/twin_test.go compare":          "a step of each kind, for both of the twins",
	"internal/scheduler/sequence/batcher_test.go event":        "a case for each kind of event",
	"internal/scheduler/sequence/random_test.go random":        "a step of each kind",
}

// TestFunctionLength: a function is read at one glance; what is a table, a literal
// of many rows, is not counted.
func TestFunctionLength(t *testing.T) {
	seen := 0
	goSources(t, func(path string, _ []byte, files *token.FileSet, file *ast.File) {
		if generated(path) {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			seen++
			n := span(files, f) - tableLines(files, f.Body)
			if long := path + " " + f.Name.Name; longTests[long] != "" {
				if n <= maxFunction {
					t.Errorf("%s is no longer long", long)
				}
			} else if n > maxFunction {
				t.Errorf("%s: %s has %d lines, at most %d", path, f.Name.Name, n, maxFunction)
			}
		}
	})
	if seen < 1000 {
		t.Errorf("saw only %d functions: the walk is broken", seen)
	}
}

// tableLines counts the lines that composite literals take beyond their first.
func tableLines(files *token.FileSet, body ast.Node) (n int) {
	ast.Inspect(body, func(node ast.Node) bool {
		if literal, ok := node.(*ast.CompositeLit); ok {
			n += span(files, literal) - 1
			return false
		}
		return true
	})
	return n
}

func span(files *token.FileSet, n ast.Node) int {
	return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
}

// maxLine is how many characters a line may have; a tab counts as one.
const maxLine = 140

// TestLineLength holds for all source files; ruff looks at those of Python. Lines inside of
// a Go text of several lines are what they are.
func TestLineLength(t *testing.T) {
	sources(t, func(path string, text []byte) {
		if generated(path) || exempt[path] == "generated" || filepath.Ext(path) == ".py" {
			return
		}
		var raw map[int]bool
		if filepath.Ext(path) == ".go" {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			raw = rawLines(files, file)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := len([]rune(line)); n > maxLine && !raw[i+1] {
				t.Errorf("%s:%d: %d characters, at most %d", path, i+1, n, maxLine)
			}
		}
	})
}

// rawLines returns the lines that raw strings of several lines are on.
func rawLines(files *token.FileSet, file *ast.File) map[int]bool {
	on := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(s.Value, "`") && span(files, s) > 1 {
			for l := files.Position(s.Pos()).Line; l <= files.Position(s.End()).Line; l++ {
				on[l] = true
			}
		}
		return true
	})
	return on
}
