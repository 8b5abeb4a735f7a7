//go:build linux && (amd64 || arm64) && !nopurego

package cuda

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compile builds a library of a C source.
func compile(t *testing.T, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler for the fake driver:", err)
	}
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-pthread", "-o", library,
		source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return library
}

func TestContext(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FAKE_CUDA", dir)
	t.Setenv("FAKE_CUDA_COUNT", "2")
	l, err := Open(compile(t, "testdata/fakecuda.c"))
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Count(); n != 2 {
		t.Errorf("%d devices", n)
	}
	if id, err := l.UUID(1); err != nil || id != UUID([]byte("neso-fake-gpu-01")) || Text(id) != "GPU-6e65736f-2d66-616b-652d-6770752d3031" {
		t.Errorf("%s, %v", Text(id), err)
	}
	for _, n := range []int64{-1, 2, 1 << 40} {
		_, err1 := l.UUID(n)
		_, err2 := l.Retain(n)
		if err1 == nil || err2 == nil {
			t.Errorf("device %d: %v, %v", n, err1, err2)
		}
	}
	c, err := l.Retain(1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Allocate(4096)
	if err != nil {
		t.Fatal(err)
	}
	if base, size, err := c.Extent(p + 100); err != nil || base != p || size != 4096 {
		t.Errorf("%x, %d, %v", base, size, err)
	}
	want, got := bytes.Repeat([]byte("neso"), 16), make([]byte, 64)
	if err := c.ToDevice(p+4032, want); err != nil {
		t.Fatal(err)
	}
	if err := c.ToHost(got, p+4032); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, err := range []error{c.ToHost(got, p+4033), c.ToDevice(p+4033, want)} {
		if err == nil || !strings.HasSuffix(err.Error(), ": CUDA error 1") {
			t.Errorf("beyond the end: %v", err)
		}
	}
	if c.ToHost(nil, 0) != nil || c.ToDevice(0, nil) != nil {
		t.Error("nothing to copy")
	}
	h, err := c.Export(p)
	if name := string(bytes.TrimRight(h[:], "\x00")); err != nil || !strings.HasPrefix(name, "mem-1-") {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := c.Import(h); err == nil || err.Error() != "cuIpcOpenMemHandle_v2: CUDA error 201" {
		t.Errorf("its own: %v", err)
	}
	for i := range h { // what the fake takes for another process's
		h[i] = byte(i + 1)
	}
	q, err := c.Import(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Unmap(q), c.Free(p), c.Release()); err != nil {
		t.Error(err)
	}
	if err := c.Free(p); err == nil {
		t.Error("freed twice")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "mem-*")); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestOpen(t *testing.T) {
	fake := compile(t, "testdata/fakecuda.c")
	t.Setenv("FAKE_CUDA_COUNT", "0")
	if _, err := Open(fake); !errors.Is(err, ErrNoGPU) {
		t.Errorf("no device: %v", err)
	}
	if _, err := Open("libneso-no-such-driver.so"); err == nil {
		t.Error("no library")
	}
	empty := filepath.Join(t.TempDir(), "old.c")
	if err := os.WriteFile(empty, []byte("int cuInit(unsigned f) { return 0; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(compile(t, empty)); err == nil || !strings.HasSuffix(err.Error(), "has no function cuDeviceGetCount") {
		t.Errorf("not a driver: %v", err)
	}
}

// TestOldDriver: regions of clients need fewer functions than a pool.
func TestOldDriver(t *testing.T) {
	source, err := os.ReadFile("testdata/fakecuda.c")
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old.c")
	text := strings.NewReplacer("cuDeviceGetUuid_v2(", "gone1(", "cuMemAlloc_v2(", "gone2(", "cuMemFree_v2(", "gone3(", "cuIpcGetMemHandle(",
		"gone4(").Replace(string(source))
	if err := os.WriteFile(old, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(compile(t, old))
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Retain(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := l.UUID(0)
	_, err2 := c.Allocate(1)
	_, err3 := c.Export(1)
	for name, err := range map[string]error{
		"cuDeviceGetUuid_v2": err1, "cuMemAlloc_v2": err2, "cuIpcGetMemHandle": err3,
		"cuMemFree_v2": c.Free(1),
	} {
		if err == nil || err.Error() != "the GPU driver has no function "+name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Release(); err != nil {
		t.Error(err)
	}
}
