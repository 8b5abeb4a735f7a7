package repotest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// peerTexts are those of the peer that name an option: clients match them.
var peerTexts = []string{
	"Use --http-max-input-size to increase the limit.",
	"Start the server with '--allow-client-shm=true' to enable.",
	"--metrics-config option format is",
}

// TestOnlyTheCommandSpeaksOfOptions: what is below the command names a setting
// (setting.Name), since a program that embeds the server has no options.
func TestOnlyTheCommandSpeaksOfOptions(t *testing.T) {
	named := regexp.MustCompile(`--([a-z][a-z-]*[a-z])`)
	options := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{\s*name: +"([a-z-]+)"`).FindAllStringSubmatch(read(t, "internal/cli/table.go"), -1) {
		options[m[1]] = true
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
