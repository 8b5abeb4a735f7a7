//go:build linux && (amd64 || arm64) && !nopurego

package shm

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
)

// compile builds the fake driver and returns a registry on it, and how often a
// device (in thousands) and a handle are held.
func compile(t *testing.T) (*Registry, func() int) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler for the fake driver:", err)
	}
	dir := t.TempDir()
	library := filepath.Join(dir, "libcuda.so.1")
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-o", library,
		"../cuda/testdata/fakecuda.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := New(Options{CUDALibrary: library})
	t.Cleanup(r.Close)
	return r, func() int {
		l, err := purego.Dlopen(library, purego.RTLD_NOW)
		if err != nil {
			t.Fatal(err)
		}
		f, err := purego.Dlsym(l, "fakeInUse")
		if err != nil {
			t.Fatal(err)
		}
		n, _, _ := purego.SyscallN(f)
		return int(n)
	}
}

func handle() []byte {
	h := make([]byte, HandleSize)
	for i := range h {
		h[i] = byte(i + 1)
	}
	return h
}

func TestCUDA(t *testing.T) {
	r, held := compile(t)
	for _, c := range []struct {
		name   string
		handle []byte
		device int64
		size   uint64
		want   string
	}{
		{"a", handle(), 0, 32, "ok"},
		{"a", handle(), 0, 32, "Already exists: shared memory region 'a' already in manager"},
		{"", handle(), 0, 32, "Invalid argument: 'region name' is necessary to register cuda shared memory region"},
		{"b", handle()[1:], 0, 32, "Invalid argument: 'raw_handle' must be a valid cudaIpcMemHandle_t of 64 bytes, got 63"},
		{
			"b", make([]byte, 64), 0, 32,
			"Invalid argument: failed to register shared memory region: invalid args (cuIpcOpenMemHandle_v2: CUDA error 1)",
		},
		{"b", handle(), 1, 32, "Invalid argument: failed to register shared memory region: invalid args (cuDeviceGet: CUDA error 101)"},
		{"b", handle(), -1, 32, "Invalid argument: failed to register shared memory region: invalid args (no such device)"},
		{"b", handle(), 1 << 40, 32, "Invalid argument: failed to register shared memory region: invalid args (no such device)"},
		{"b", handle(), 0, 0, "Invalid argument: failed to register shared memory region 'b': invalid args"},
		{"b", handle(), 0, 1 << 63, "Invalid argument: failed to register shared memory region 'b': invalid args"},
		{"b", handle(), 0, 241, "Invalid argument: failed to register shared memory region: invalid args (byte_size is larger than the memory)"},
		{"b", handle(), 0, 240, "ok"},
	} {
		if got := text(r.RegisterCUDA(c.name, c.handle, c.device, c.size)); got != c.want {
			t.Errorf("%s %d %d: got\n%s, want\n%s", c.name, c.device, c.size, got, c.want)
		}
	}
	if list, err := r.Regions(CUDA, "a"); err != nil || list[0] != (Region{Name: "a", Kind: CUDA, ByteSize: 32}) {
		t.Errorf("%v %v", list, err)
	}
	if _, err := r.Regions(System, "a"); text(err) != "Not found: The region named 'a' is registered as CUDA shared memory, not system "+
		"shared memory" {
		t.Error(text(err))
	}
	p, err := r.Use("a", 8, 24)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(r.Unregister(CUDA, "a")); got != "Internal: Cannot unregister shared memory region 'a', it is currently in use." {
		t.Error(got)
	}
	want := bytes.Repeat([]byte("neso"), 6)
	got := make([]byte, 24)
	if err := p.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := p.Read(got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	if n := held(); n != 2002 {
		t.Errorf("two regions hold %d", n)
	}
	p.Release()
	if err := r.Unregister(CUDA, "a"); err != nil {
		t.Fatal(err)
	}
	if n := held(); n != 1001 {
		t.Errorf("one region holds %d", n)
	}
	// The other region is the same memory.
	q, err := r.Use("b", 8, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Read(got[:4]); err != nil || string(got[:4]) != "neso" {
		t.Errorf("%q %v", got[:4], err)
	}
	if got := text(r.Unregister(CUDA, "")); got != "Internal: Failed to unregister the following cuda shared memory regions: b ," {
		t.Error(got)
	}
	r.Close()
	if n := held(); n != 1001 {
		t.Errorf("the request in flight holds %d", n)
	}
	q.Release()
	if n := held(); n != 0 {
		t.Errorf("%d is held at the end", n)
	}
}

func TestNoCUDA(t *testing.T) {
	for _, library := range []string{"libneso-no-such-driver.so", filepath.Join(t.TempDir(), "libcuda.so.1")} {
		r := New(Options{CUDALibrary: library})
		if got := text(r.RegisterCUDA("a", make([]byte, 64), 0, 8)); !strings.HasSuffix(got,
			"failed to register CUDA shared memory region: 'a', GPUs not supported") {
			t.Error(got)
		}
	}
}
