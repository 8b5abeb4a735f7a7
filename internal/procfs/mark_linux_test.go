package procfs

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMarks: a child, and what it starts in a session of its own, have the mark, by
// both ways to learn it.
func TestMarks(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	child := exec.CommandContext(t.Context(), "sh", "-c", "read -r line; setsid cat <&3 & echo $!; wait")
	child.ExtraFiles = []*os.File{read}
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	mark := NewMark()
	if err := Mark(child.Process.Pid, mark); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 32)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	grandchild := 0
	for _, c := range text[:n-1] {
		grandchild = 10*grandchild + int(c-'0')
	}
	for _, pid := range []int{child.Process.Pid, grandchild} {
		for name, of := range map[string]func(int) (uint64, error){"by call": MarkOf, "by text": markInText} {
			if got, err := of(pid); got != mark || err != nil {
				t.Errorf("%s: %d, %v, want %d", name, got, err, mark)
			}
		}
		if !slices.Contains(slices.Collect(Numbers()), pid) {
			t.Errorf("%d is not among the processes", pid)
		}
	}
	if s, err := StatOf(child.Process.Pid); err != nil || s.Parent != os.Getpid() || s.Dead() {
		t.Errorf("%+v, %v", s, err)
	}
	write.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if s, err := StatOf(child.Process.Pid); err == nil {
		t.Errorf("a process that is gone: %+v", s)
	}
	if Marked() || NewMark() == mark || mark>>60 != 1 || mark >= Base {
		t.Errorf("marks: %x", mark)
	}
}

func TestParseLimits(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \n"
	for text, want := range map[string]uint64{
		head + "Max realtime timeout      unlimited            unlimited            us        \n": unix.RLIM_INFINITY,
		head + "Max realtime timeout      12                   1152921504606846976  us        \n": 1 << 60,
	} {
		if got, err := parseLimits([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", head, "Max realtime timeout 1", "Max realtime timeout 1 x us", "Max realtime timeout 1 -1 us"} {
		if got, err := parseLimits([]byte(text)); err == nil {
			t.Errorf("%q: %d and no error", text, got)
		}
	}
}

func FuzzParseLimits(f *testing.F) {
	f.Add([]byte("Max realtime timeout      unlimited            unlimited            us        \n"))
	f.Add([]byte("Max realtime timeout      12                   1152921504606846976  us        \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseLimits(text); err != nil && got != 0 {
			t.Error(got, err)
		}
	})
}
