package orphans

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/procfs"
)

// TestAdopter makes the test what process 1 of a container is, one to whom
// orphans come, in a process of its own.
func TestAdopter(t *testing.T) {
	if os.Getenv("NESO_TEST_ADOPTER") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAdopter$", "-test.v", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), "NESO_TEST_ADOPTER=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skipf("this process cannot adopt: %v", err)
	}
	// Each of the two prints its number, is left by its parent, and dies when its
	// input, which is kept open here, ends.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", `for i in 1 2; do sh -c 'echo $$; exec >&- 2>&-; read -r line' <&3 & done`)
	shell.ExtraFiles = []*os.File{read}
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	orphans := strings.Fields(string(out))
	if len(orphans) != 2 {
		t.Fatalf("the shell printed %q", out)
	}
	a := adopter{parent: os.Getpid()}
	a.round()
	a.round()
	for _, pid := range orphans {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			t.Errorf("an orphan that lives is gone: %v", err)
		}
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	dead := func() (n int) {
		for pid := range procfs.Numbers() {
			if s, err := procfs.StatOf(pid); err == nil && s.Dead() && s.Parent == os.Getpid() {
				n++
			}
		}
		return n
	}
	for dead() < 2 {
		time.Sleep(time.Millisecond)
	}
	a.round()
	if n := dead(); n != 2 {
		t.Errorf("after one round %d of 2 are left", n)
	}
	a.round()
	if n := dead(); n != 0 {
		t.Errorf("after two rounds %d are left", n)
	}
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Run(); err != nil {
		t.Errorf("a child of its own: %v", err)
	}
}
