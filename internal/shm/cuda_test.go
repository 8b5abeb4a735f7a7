//go:build linux && (amd64 || arm64) && !nopurego

package shm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
)

// fakeDriver is a GPU driver with one device of ordinary memory. It checks what
// a real one would: that a context is current on the calling thread, and that
// nothing beyond an allocation is touched.
const fakeDriver = `
#include <stddef.h>
#include <string.h>
typedef struct { char reserved[64]; } handle;
typedef unsigned long long address;
static __thread int depth;
static int retained, opened;
static char memory[256];
int fakeInUse(void) { return retained * 1000 + opened; }
int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int n) { *d = 7; return n == 0 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **c, int d) { if (d != 7) return 101; *c = memory; retained++; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { retained--; return d == 7 ? 0 : 101; }
int cuCtxPushCurrent_v2(void *c) { depth++; return c == memory ? 0 : 201; }
int cuCtxPopCurrent_v2(void **c) { depth--; *c = memory; return 0; }
int cuIpcOpenMemHandle_v2(address *p, handle h, unsigned flags) {
	for (int i = 0; i < 64; i++) if (h.reserved[i] != i + 1) return 1;
	if (depth != 1 || flags != 1) return 201;
	*p = (address)memory + 16; opened++;
	return 0;
}
int cuIpcCloseMemHandle(address p) { if (depth != 1 || p != (address)memory + 16) return 201; opened--; return 0; }
int cuMemGetAddressRange_v2(address *base, size_t *size, address p) { *base = (address)memory; *size = sizeof memory; return p == *base + 16 ? 0 : 1; }
static int outside(address p, size_t n) { return depth != 1 || p < (address)memory || p + n > (address)memory + sizeof memory; }
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { if (outside(to, n)) return 1; memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { if (outside(from, n)) return 1; memcpy(to, (void *)from, n); return 0; }
`

// compile builds the fake driver and returns a registry on it, and how often a
// device (in thousands) and a handle are held.
func compile(t *testing.T) (*Registry, func() int) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler for the fake driver:", err)
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(source, []byte(fakeDriver), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
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
		{"b", make([]byte, 64), 0, 32, "Invalid argument: failed to register shared memory region: invalid args (cuIpcOpenMemHandle_v2: CUDA error 1)"},
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
	if _, err := r.Regions(System, "a"); text(err) != "Not found: The region named 'a' is registered as CUDA shared memory, not system shared memory" {
		t.Error(text(err))
	}
	p, err := r.Use("a", 8, 24)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Unregister(CUDA, "a"); err != nil { // the part holds it
		t.Fatal(err)
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
		if got := text(r.RegisterCUDA("a", make([]byte, 64), 0, 8)); !strings.HasSuffix(got, "failed to register CUDA shared memory region: 'a', GPUs not supported") {
			t.Error(got)
		}
	}
}
