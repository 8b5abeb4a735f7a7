package repotest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// groups are the folders of docs. Each has an index, README.md.
var groups = []string{"use", "models", "operate", "internals"}

// link finds the relative target of a Markdown link, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// code is a fenced block: type arguments before a call look like a link.
var code = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// pages returns the pages of docs, and the documents beside them, as paths from
// the root.
func pages(t *testing.T) (docs, others []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root(t), "docs"), func(p string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(p) == ".md" {
			rel, _ := filepath.Rel(root(t), p)
			docs = append(docs, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 20 {
		t.Fatalf("saw only %d pages: the walk is broken", len(docs))
	}
	top, _ := filepath.Glob(filepath.Join(root(t), "*.md"))
	for _, p := range top {
		others = append(others, filepath.Base(p))
	}
	return docs, append(others, "examples/README.md", "rust/README.md")
}

// links returns the relative targets of a document's links, as paths from the
// root, in their order.
func links(t *testing.T, doc string) []string {
	t.Helper()
	var targets []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, doc), ""), -1) {
		if !strings.Contains(m[1], "://") {
			targets = append(targets, path.Join(path.Dir(doc), m[1]))
		}
	}
	return targets
}

// TestLinksResolve: a relative link in a document leads to a file.
func TestLinksResolve(t *testing.T) {
	docs, others := pages(t)
	for _, doc := range append(docs, others...) {
		for _, target := range links(t, doc) {
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, target)
			}
		}
	}
}

// TestPagesAreListedOnce: the list in README.md, and one of the indexes, has each
// page of docs. A page in a folder is in the index of that folder.
func TestPagesAreListedOnce(t *testing.T) {
	docs, _ := pages(t)
	_, list, ok := strings.Cut(read(t, "README.md"), "\n## Documentation\n")
	if !ok {
		t.Fatal("README.md has no list of the documentation")
	}
	list, _, _ = strings.Cut(list, "\n## ")
	inReadme := count(link.FindAllStringSubmatch(list, -1))
	inIndex, group := map[string]int{}, map[string]string{}
	for _, g := range groups {
		for _, target := range links(t, "docs/"+g+"/README.md") {
			inIndex[target]++
			group[target] = g
		}
	}
	for _, page := range docs {
		if inReadme[page] != 1 {
			t.Errorf("the list in README.md has %s %d times, want once", page, inReadme[page])
		}
		if path.Base(page) == "README.md" {
			continue
		}
		if inIndex[page] != 1 {
			t.Errorf("the indexes docs/*/README.md have %s %d times, want once", page, inIndex[page])
		}
		if dir := path.Dir(page); dir != "docs" && dir != "docs/"+group[page] {
			t.Errorf("%s stands in the index of %s", page, group[page])
		}
	}
}

// widest is the number of characters that a line of a document may have.
const widest = 180

// TestLinesOfDocuments: an editor shows a line of a document whole, and so does
// the difference of a change.
func TestLinesOfDocuments(t *testing.T) {
	docs, others := pages(t)
	for _, doc := range append(docs, others...) {
		for i, line := range strings.Split(read(t, doc), "\n") {
			if n := utf8.RuneCountInString(line); n > widest {
				t.Errorf("%s:%d has %d characters, at most %d", doc, i+1, n, widest)
			}
		}
	}
}

// TestNamedTestsExist: each test that a page names is one of ours: `TestX` and
// `folder: TestX` in Go on the pages on design, style, changes, security and the C
// interfaces, `file.py::test_x`, `file.py: x` and `file.c: x` on all.
func TestNamedTestsExist(t *testing.T) {
	declared := map[string]bool{}
	inGo := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	other := regexp.MustCompile(`(?m)^(?:def|[a-z][\w* ]*?) \*?(\w+)\(`)
	sources(t, func(file string, text []byte) {
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for _, m := range inGo.FindAllSubmatch(text, -1) {
				declared[string(m[1])] = true
				declared[path.Dir(file)+": "+string(m[1])] = true
			}
		case path.Ext(file) != ".go":
			for _, m := range other.FindAllSubmatch(text, -1) {
				declared[file+": "+string(m[1])] = true
			}
		}
	})
	name := regexp.MustCompile("`((?:[\\w/.]+: )?(?:Test|Fuzz)\\w+)`")
	named := regexp.MustCompile("`([\\w/.]+\\.(?:py|c))(?:::|: )(\\w+)(?:\\[.*?\\])?`")
	n := 0
	for _, doc := range []string{"docs/design.md", "docs/style.md", "docs/security.md", "docs/internals/c-interfaces.md", "CONTRIBUTING.md"} {
		for _, m := range name.FindAllStringSubmatch(read(t, doc), -1) {
			n++
			if !declared[m[1]] {
				t.Errorf("%s names %s, which is not declared", doc, m[1])
			}
		}
	}
	docs, others := pages(t)
	for _, doc := range append(docs, others...) {
		for _, m := range named.FindAllStringSubmatch(read(t, doc), -1) {
			n++
			if !declared[m[1]+": "+m[2]] {
				t.Errorf("%s names %s of %s, which is not declared", doc, m[2], m[1])
			}
		}
	}
	if n < 150 {
		t.Errorf("saw only %d names of tests: the test is broken", n)
	}
}

func count(found [][]string) map[string]int {
	n := map[string]int{}
	for _, m := range found {
		n[m[1]]++
	}
	return n
}
