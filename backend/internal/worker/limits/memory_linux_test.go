package limits

import (
	"os/exec"
	"testing"
)

// The memory of a process that waits is what the kernel's own report says of it.
func TestResidentMemory(t *testing.T) {
	waits := exec.Command("cat")
	in, err := waits.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := waits.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	defer waits.Wait()
	defer in.Close()
	// What it gives back it has begun to read.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := waits.Process.Pid
	if got, said := ResidentMemory(pid), memoryOf(pid, "VmRSS:"); got == 0 || got != said {
		t.Errorf("found %d bytes, expected the %d of /proc/%d/status", got, said, pid)
	}
	if got := ResidentMemory(1 << 30); got != 0 {
		t.Errorf("found %d bytes of a process that is not there, expected 0", got)
	}
}
