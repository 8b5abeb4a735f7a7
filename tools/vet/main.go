// Command vet runs the analyzers of `go vet` for several platforms, each given as
// GOOS/GOARCH, over the module in the current directory and its tests.
//
// go vet compiles everything that a package imports, the standard library too,
// because it reads types from compiled packages: a minute of processor time for each
// platform that nothing else is built for. This program reads them from the sources,
// without the bodies of functions of other modules, which no type depends on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	suite "golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

func main() {
	tags := flag.String("tags", "", "build tags, separated by commas")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: vet [-tags=TAGS] GOOS/GOARCH ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	root, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vet:", err)
		os.Exit(2)
	}
	status := 0
	for _, platform := range flag.Args() {
		system, architecture, ok := strings.Cut(platform, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "vet: a platform is GOOS/GOARCH, not %q\n", platform)
			os.Exit(2)
		}
		fmt.Println("vet", platform)
		faults, err := vet(root, system, architecture, *tags)
		if err != nil {
			fmt.Fprintf(os.Stderr, "vet %s: %v\n", platform, err)
			status = 1
		}
		for _, fault := range faults {
			fmt.Fprintln(os.Stderr, fault)
			status = 1
		}
	}
	os.Exit(status)
}

// despiteErrors makes a and what it needs run over packages of other modules, too:
// without the bodies of their functions they import what they do not use. Errors of
// our own packages are told before any analyzer runs.
func despiteErrors(a *analysis.Analyzer) {
	a.RunDespiteErrors = true
	for _, r := range a.Requires {
		despiteErrors(r)
	}
}

// vet returns what is wrong with the packages below root on one platform.
func vet(root, system, architecture, tags string) ([]string, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedModule,
		Dir:        root,
		Env:        append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture),
		BuildFlags: []string{"-tags=" + tags},
		Tests:      true,
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			if below(root, name) {
				return parser.ParseFile(files, name, source, parser.SkipObjectResolution|parser.ParseComments)
			}
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if file != nil {
				dropBodies(file)
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return nil, err
	}
	var ours []*packages.Package
	var faults []string
	for _, p := range loaded {
		if strings.HasSuffix(p.ID, ".test") {
			continue // the main package that go test writes
		}
		ours = append(ours, p)
		for _, e := range p.Errors {
			faults = append(faults, e.Error())
		}
	}
	if len(ours) == 0 {
		return nil, errors.New("no packages in " + root)
	}
	if len(faults) > 0 {
		return unique(faults), nil
	}
	for _, a := range suite.Suite {
		despiteErrors(a)
	}
	graph, err := checker.Analyze(suite.Suite, ours, nil)
	if err != nil {
		return nil, err
	}
	for _, act := range graph.Roots {
		if act.Err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", act, act.Err))
		}
		for _, d := range act.Diagnostics {
			faults = append(faults, fmt.Sprintf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message))
		}
	}
	return unique(faults), nil
}

func below(root, name string) bool {
	rel, err := filepath.Rel(root, name)
	return err == nil && filepath.IsLocal(rel)
}

// dropBodies keeps what types depend on.
func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			f.Body = &ast.BlockStmt{Lbrace: f.Body.Lbrace, Rbrace: f.Body.Rbrace}
		}
	}
}

// unique drops what was told before: a file belongs to a package and to its tests.
func unique(lines []string) []string {
	told := map[string]bool{}
	var kept []string
	for _, l := range lines {
		if !told[l] {
			told[l] = true
			kept = append(kept, l)
		}
	}
	return kept
}
