// Package transcript plays the transcripts in a package's testdata: text that
// says what happens and, below that, what follows. A test turns the first into
// the second; a difference fails it, and -rewrite writes the files anew.
//
// It is a package of its own because of the flag: nesotest is also behind the
// conformance suite that users' tests import.
package transcript

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// Run calls play, as a subtest, with the name and the text of each file that
// matches the pattern. play returns what the text should be.
func Run(t *testing.T, pattern string, play func(t *testing.T, name, text string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, filepath.Base(file), string(want))
			switch {
			case got == string(want):
			case *rewrite:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("-want +got; -rewrite writes the file anew\n%s", cmp.Diff(string(want), got))
			}
		})
	}
}

// Events plays a script. Its unindented lines are events, except for those that
// are empty or begin with the word "#"; the indented lines below an event say
// what follows. event gets the words of one and appends its lines to out. Events
// returns the script with them.
func Events(script string, out *bytes.Buffer, event func(words []string)) string {
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			event(words)
		}
	}
	return out.String()
}

// Options reads words of the form name=value, or name alone.
func Options(words []string) map[string]string {
	o := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	return o
}

// Number reads an integer; an empty text means otherwise.
func Number(text string, otherwise int) int {
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// Duration reads a duration; an empty text means 0.
func Duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}
