package overlay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMake(t *testing.T) {
	first, second, made := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "m", Filename), "max_batch_size: 4\n")
	write(t, filepath.Join(first, "m", "1", "model.py"), "one")
	write(t, filepath.Join(first, "m", "labels.txt"), "cat")
	write(t, filepath.Join(second, "m", "1", "model.py"), "two")
	write(t, filepath.Join(second, "n", "1", "model.py"), "three")
	changes := map[string][]edit.Change{"m": {{Field: "max_batch_size", Value: json.RawMessage("8")}}}
	if err := Make(made, []string{first, second}, changes); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"m/1/model.py": "one", "n/1/model.py": "three", "m/" + Filename: "max_batch_size: 8\n"} {
		if got := read(t, filepath.Join(made, path)); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if info, err := os.Lstat(filepath.Join(made, "m", "labels.txt")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a file of the model: %v, %v", info, err)
	}
	if got := read(t, filepath.Join(first, "m", Filename)); got != "max_batch_size: 4\n" {
		t.Errorf("the user's file: %q", got)
	}
}

func TestFind(t *testing.T) {
	r := t.TempDir()
	write(t, filepath.Join(r, "m", Filename), "")
	if got, err := Find([]string{r}, "m"); err != nil || got != filepath.Join(r, "m") {
		t.Error(got, err)
	}
	for _, name := range []string{"", ".", "..", "../m", "x"} {
		if got, err := Find([]string{r}, name); err == nil {
			t.Errorf("%q: %s", name, got)
		}
	}
}

func TestApplyKeepsTheOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Filename)
	for i, want := range []string{"", path + ".1.bak", path + ".2.bak"} {
		was, err := Config(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Apply(dir, was, fmt.Appendf(nil, "max_batch_size: %d\n", i+1))
		if err != nil || got != want {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
	}
	got := read(t, path+".1.bak") + read(t, path+".2.bak") + read(t, path)
	if got != "max_batch_size: 1\nmax_batch_size: 2\nmax_batch_size: 3\n" {
		t.Error(got)
	}
	_, err := Apply(dir, []byte("max_batch_size: 2\n"), []byte("max_batch_size: 9\n"))
	if err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Error(err)
	}
	if backup, err := Apply(dir, nil, []byte("max_batch_size: 3\n")); backup != "" || err != nil {
		t.Error(backup, err)
	}
}

func TestDiff(t *testing.T) {
	was := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n"
	now := "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn"
	want := "--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -11,3 +11,4 @@\n k\n l\n m\n+n\n\\ No newline at end of file\n"
	if got := Diff("x", []byte(was), []byte(now)); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := Diff("x", nil, []byte("a\n")); got != "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n" {
		t.Errorf("got\n%s", got)
	}
	if got := Diff("x", []byte("a"), []byte("a")); got != "" {
		t.Error(got)
	}
}

// TestPatchTakesIt has patch(1) make the one text of the other.
func TestPatchTakesIt(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("there is no patch here")
	}
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	text := func() string {
		var b strings.Builder
		for range random.IntN(40) {
			fmt.Fprintf(&b, "line %d\n", random.IntN(12))
		}
		return b.String()
	}
	for range 25 {
		was, now := text()+"end\n", text()+"end"
		write(t, filepath.Join(dir, "x"), was)
		c := exec.Command("patch", "-s", "-p1", "-d", dir)
		c.Stdin = strings.NewReader(Diff("x", []byte(was), []byte(now)))
		if out, err := c.CombinedOutput(); err != nil || read(t, filepath.Join(dir, "x")) != now {
			t.Fatalf("%v %s\n%s", err, out, Diff("x", []byte(was), []byte(now)))
		}
	}
}
