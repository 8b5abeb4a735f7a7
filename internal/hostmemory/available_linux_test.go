package hostmemory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMemTotal(t *testing.T) {
	for text, want := range map[string]int64{
		"MemFree: 1 kB\nMemTotal:       16384 kB\n": 16384,
		"MemTotal: x kB\n":                          0,
		"MemTotal:\n":                               0,
		"MemTotal: -4 kB":                           0,
		"":                                          0,
	} {
		if got, ok := memTotal([]byte(text)); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func TestLimitFiles(t *testing.T) {
	for text, want := range map[string][]string{
		"0::/a/b\n":            {"/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"},
		"0::/../..\n":          {"/sys/fs/cgroup/memory.max"},
		"4:cpu,memory:/x\n":    {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		"3:cpu:/x\nnonsense\n": nil,
	} {
		if d := cmp.Diff(limitFiles([]byte(text)), want); d != "" {
			t.Errorf("%q\n%s", text, d)
		}
	}
}

func TestReadLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "max")
	for text, want := range map[string]int64{"max\n": 0, "4096\n": 4096, "-1\n": 0, "": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := readLimit(file); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	if _, ok := readLimit(file + "x"); ok {
		t.Error("a missing file")
	}
}
