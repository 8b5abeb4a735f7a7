package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each platform has a fault of its own kind, one in a test: only that platform tells it.
func TestFaultsOfPlatforms(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"m.go": "package m\n\nimport \"fmt\"\n\nvar _ = wrap\n\n" +
			"func wrap(format string, words ...any) string { return fmt.Sprintf(format, words...) }\n",
		"m_windows.go":      "package m\n\nvar w int = \"word\"\n",
		"m_darwin.go":       "package m\n\nvar _ = wrap(\"%d\", \"word\")\n",
		"m_linux_test.go":   "package m\n\nimport \"os\"\n",
		"m_other_arm64.go":  "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Dup2\n",
		"m_freebsd_test.go": "package m\n\nimport \"testing\"\n\nfunc Test(*testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ system, architecture, fault string }{
		{"windows", "amd64", `cannot use "word"`},
		{"darwin", "amd64", "wrap format %d has arg \"word\" of wrong type string"},
		{"linux", "amd64", `"os" imported and not used`},
		{"linux", "arm64", "undefined: syscall.Dup2"},
		{"freebsd", "amd64", ""},
	} {
		faults, err := vet(root, c.system, c.architecture, "")
		if err != nil {
			t.Errorf("%s/%s: %v", c.system, c.architecture, err)
		}
		told := strings.Join(faults, "\n")
		if !strings.Contains(told, c.fault) || c.fault == "" && told != "" {
			t.Errorf("%s/%s tells %q, want %q", c.system, c.architecture, told, c.fault)
		}
	}
	if faults, err := vet(t.TempDir(), "linux", "amd64", ""); err == nil && len(faults) == 0 {
		t.Error("a folder without packages has no faults")
	}
}
