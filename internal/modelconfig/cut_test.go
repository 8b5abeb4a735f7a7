package modelconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// TestCutEachWord puts wrong words in the place of each word of real
// configurations: what is left must always be readable.
func TestCutEachWord(t *testing.T) {
	files, err := filepath.Glob("testdata/triton/*.pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(blankComments(data))
		words := lexer{text: text, line: 1}
		for w := words.next(); w.kind != tokenEOF; w = words.next() {
			if w.kind == tokenPunct {
				continue
			}
			for _, wrong := range []string{"wrong", "-7.5", `"wrong"`, "{ }", "{ a: [ 1 ] b { } }", "[ wrong, \n 3 ]", "x: y"} {
				bad := []byte(text[:w.off] + wrong + text[w.off+len(w.text):])
				d, err := Parse(bad, "config.pbtxt")
				var faults Faults
				if !errors.As(err, &faults) {
					continue // still right, such as another name of a tensor
				}
				cutsHold(t, bad)
				explained(t, d, faults)
			}
		}
	}
}

// TestNoFollowUps leaves out each field of real configurations in the way of a
// wrong value: that is one fault, and nothing else is reported.
func TestNoFollowUps(t *testing.T) {
	files, err := filepath.Glob("testdata/triton/*.pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".pbtxt")
		text := string(blankComments(data))
		s := scan(text, file, (&inferencepb.ModelConfig{}).ProtoReflect().Descriptor())
		lines := strings.SplitAfter(text, "\n")
		for path, at := range s.places {
			line := lines[at.line-1]
			field := line[at.column-1:]
			word := strings.IndexFunc(field, func(r rune) bool { return !isLetter(byte(r)) && !isDigit(byte(r)) })
			if word <= 0 {
				continue // an element of a list
			}
			for _, wrong := range []string{field[:word] + "s", field[:word-1], "xyzzy"} {
				bad := strings.Join(lines[:at.line-1], "") + line[:at.column-1] + wrong + field[word:] + strings.Join(lines[at.line:], "")
				d, err := Parse([]byte(bad), "config.pbtxt")
				if d == nil || err == nil {
					continue // another field that exists, or not clear what belongs to what
				}
				first := len(asFaults(err))
				if all := d.Inspect(Inspection{Name: name, Custom: true}, err).Faults; len(all) > first && wrong != "xyzzy" {
					t.Errorf("%s: %s as %s:\n%v", file, path, wrong, all)
				}
			}
		}
	}
}
