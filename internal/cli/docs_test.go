package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// page is what docs/cli.md says.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOptionsOfOurOwnHaveARow compares the options that Triton does not have with
// the first column of the table in docs/cli.md.
func TestOptionsOfOurOwnHaveARow(t *testing.T) {
	var column strings.Builder
	for line := range strings.Lines(page(t)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.HasPrefix(line, "|") {
			column.WriteString(cells[1] + "\n")
		}
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("`--([a-z0-9-]+)").FindAllStringSubmatch(column.String(), -1) {
		rows[m[1]] = true
	}
	known := map[string]bool{}
	for _, o := range serveTable() {
		known[o.name] = true
		if o.group == groupNeso && !rows[o.name] {
			t.Errorf("docs/cli.md has no row for --%s", o.name)
		}
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("docs/cli.md has a row for --%s, which is no option", name)
		}
	}
}

// TestCommandsAreListed compares the commands with the list at the top of
// docs/cli.md. A line there may name several: neso load | unload.
func TestCommandsAreListed(t *testing.T) {
	_, list, _ := strings.Cut(page(t), "```\n")
	list, _, found := strings.Cut(list, "```")
	if !found {
		t.Fatal("docs/cli.md does not begin with a list of commands")
	}
	lines := strings.Split(list, "\n")
	listed := func(path string) bool {
		command := strings.TrimPrefix(path, "neso ")
		for _, line := range lines {
			usage, _, _ := strings.Cut(strings.TrimPrefix(line, "neso "), "  ")
			for name := range strings.SplitSeq(usage, "|") {
				if name = strings.TrimSpace(name); name == command || strings.HasPrefix(name, command+" ") {
					return true
				}
			}
		}
		return false
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && !c.Hidden && !listed(c.CommandPath()) {
			t.Errorf("docs/cli.md does not list %s", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	for _, c := range rootCommand(Env{Stdout: io.Discard, Stderr: io.Discard}).Commands() {
		walk(c)
	}
}
