package repotest

import (
	"regexp"
	"strings"
	"testing"
)

// TestCIRunsCheck: what CI runs, anyone can run, by one command.
func TestCIRunsCheck(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^[^#\n].*$`).FindAllString(read(t, ".ci/run"), -1)
	if want := `cd "$(dirname "$0")/.." && exec make --no-print-directory check`; len(commands) != 1 || commands[0] != want {
		t.Errorf(".ci/run runs %q, want only %q", commands, want)
	}
	if !regexp.MustCompile(`(?m)^check:.*\n\tscripts/check\.sh\n\n`).MatchString(read(t, "Makefile")) {
		t.Error("make check is not scripts/check.sh alone")
	}
	step := regexp.MustCompile(`(?m)^step (?:told )?(?:make --no-print-directory )?(.*)$`)
	steps := step.FindAllStringSubmatch(read(t, "scripts/check.sh"), -1)
	if len(steps) < 5 {
		t.Fatalf("saw only the steps %q: the test is broken", steps)
	}
	text := read(t, "CONTRIBUTING.md")
	for _, step := range steps {
		if !strings.Contains(text, "| `"+step[1]+"` |") && !strings.Contains(text, "| `make "+step[1]+"` |") {
			t.Errorf("CONTRIBUTING.md does not say what the step %q of scripts/check.sh is for", step[1])
		}
	}
}

// TestVersionsAgree: the newest version in CHANGELOG.md is that of the Python
// packages, of the crate, and of a server that is built without `make`.
func TestVersionsAgree(t *testing.T) {
	versions := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(read(t, "CHANGELOG.md"), -1)
	if len(versions) < 2 || versions[0][1] != "Unreleased" {
		t.Fatalf("CHANGELOG.md has the sections %q, want Unreleased and a version", versions)
	}
	newest := regexp.MustCompile(`^(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$`).FindStringSubmatch(versions[1][1])
	if newest == nil {
		t.Fatalf("CHANGELOG.md: %q is no version with its date", versions[1][1])
	}
	for path, line := range map[string]string{
		"python/neso/_version.py":               `__version__ = "` + newest[1] + `"`,
		"python/pytriton-compat/pyproject.toml": `version = "` + newest[1] + `"`,
		"rust/Cargo.toml":                       `version = "` + newest[1] + `"`,
		"java/pom.xml":                          "  <artifactId>neso</artifactId>\n  <version>" + newest[1] + "</version>",
		"internal/engine/engine.go":             `var Version = "` + newest[1] + `-dev"`,
	} {
		if !strings.Contains(read(t, path), "\n"+line+"\n") {
			t.Errorf("%s has no line %s, the newest version in CHANGELOG.md", path, line)
		}
	}
}
