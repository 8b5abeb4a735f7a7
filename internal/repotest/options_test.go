package repotest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// peerTexts are those of the peer that name an option: clients match them.
var peerTexts = []string{
	"Use --http-max-input-size to increase the limit.",
	"Start the server with '--allow-client-shm=true' to enable.",
	"--metrics-config option format is",
}

// TestOnlyTheCommandSpeaksOfOptions: what is below the command names a setting in the
// words of its server (setting.Words, backend.Settings.Option), since a program that
// embeds the server has no options. The names are those of options.
func TestOnlyTheCommandSpeaksOfOptions(t *testing.T) {
	named := regexp.MustCompile(`--([a-z][a-z-]*[a-z])`)
	options := map[string]bool{}
	for _, file := range []string{"internal/cli/table.go", "internal/cli/ondemand.go"} {
		for _, m := range regexp.MustCompile(`\{\s*name: +"([a-z-]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			options[m[1]] = true
		}
	}
	if len(options) < 100 {
		t.Fatalf("only %d options were found", len(options))
	}
	goSources(t, func(file string, _ []byte, _ *token.FileSet, parsed *ast.File) {
		if strings.HasSuffix(file, "_test.go") || !contains([]string{"internal", "backend", "client", "tensor"},
			file) && path.Dir(file) != "." || contains([]string{"internal/cli", "internal/repotest"}, file) {
			return
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name := namedSetting(call); name != "" && !options[name] {
					t.Errorf("%s speaks of a setting %q, and there is no such option", file, name)
				}
			}
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			for _, peer := range peerTexts {
				if strings.Contains(l.Value, peer) {
					return true
				}
			}
			for _, m := range named.FindAllStringSubmatch(l.Value, -1) {
				if options[m[1]] {
					t.Errorf("%s speaks of the option %s: %s", file, m[0], l.Value)
				}
			}
			return true
		})
	})
}

// namedSetting returns the setting that a call of Words.Name or Settings.Option
// names, or "".
func namedSetting(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 || !slices.Contains([]string{"Name", "Option", "option"}, f.Sel.Name) {
		return ""
	}
	l, ok := call.Args[0].(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	return strings.Trim(l.Value, `"`)
}
