package shm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// open returns a registry over a directory of the test's own that has objects
// of the given sizes.
func open(t testing.TB, objects map[string]int) (*Registry, string) {
	t.Helper()
	dir := t.TempDir()
	for name, size := range objects {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{'.'}, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := New(Options{Directory: dir})
	t.Cleanup(r.Close)
	return r, dir
}

// text is an error as "code: message", or "ok".
func text(err error) string {
	if e := backend.AsError(err); e != nil {
		return e.Code.String() + ": " + e.Message
	}
	return "ok"
}

// fault is text for what may be a nil *backend.Error.
func fault(err *backend.Error) string {
	if err == nil {
		return "ok"
	}
	return text(err)
}

func register(t testing.TB, r *Registry, name, key string, offset, size uint64) {
	t.Helper()
	if err := r.RegisterSystem(name, key, offset, size); err != nil {
		t.Fatal(err)
	}
}

func TestRegisterSystem(t *testing.T) {
	r, dir := open(t, map[string]int{"a": 64, "empty": 0, "triton_python_backend_shm_region_1": 64, "sem.x": 64})
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, make([]byte, 64), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		os.WriteFile(filepath.Join(dir, "dir", "inner"), make([]byte, 64), 0o600), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	register(t, r, "taken", "/a", 0, 64)
	const cannot, unable = "Internal: Unable to open shared memory region: ",
		"Invalid argument: failed to register shared memory region 'r': invalid args"
	for _, c := range []struct {
		name, key    string
		offset, size uint64
		want         string
	}{
		{"r", "/a", 0, 64, "ok"},
		{"r", "a", 60, 4, "ok"}, // neither aligned nor with a slash
		{"r", "//a", 0, 1, "ok"},
		{"taken", "/a", 0, 64, "Already exists: shared memory region 'taken' already in manager"},
		{"", "/a", 0, 64, "Invalid argument: 'region name' is necessary to register system shared memory region"},
		{strings.Repeat("x", 5000), "/a", 0, 64, "Invalid argument: the name of a shared memory region has at most 4096 bytes"},
		{"r", "/a", 0, 0, unable},
		{"r", "/a", 0, 65, unable},
		{"r", "/a", 1, 64, unable},
		{"r", "/a", 65, 1, unable},
		{"r", "/a", 1, 1<<64 - 1, unable},
		{"r", "/a", 1<<64 - 1, 2, unable},
		{"r", "/empty", 0, 1, unable},
		{"r", "", 0, 4, "Invalid argument: cannot register shared memory region 'r' - invalid shm key ''"},
		{"r", "///", 0, 4, "Invalid argument: cannot register shared memory region 'r' - invalid shm key '///'"},
		{"r", "/nope", 0, 4, cannot + "'/nope'"},
		{"r", "/link", 0, 4, cannot + "'/link'"},
		{"r", "/dir", 0, 4, cannot + "'/dir'"},
		{"r", "/pipe", 0, 4, cannot + "'/pipe'"},
		{"r", "/dir/inner", 0, 4, cannot + "'/dir/inner'"},
		{"r", "/../a", 0, 4, cannot + "'/../a'"},
		{"r", "..", 0, 4, cannot + "'..'"},
		{"r", ".", 0, 4, cannot + "'.'"},
		{"r", outside, 0, 4, cannot + "'" + outside + "'"},
		{"r", "/a\x00b", 0, 4, cannot + "'/a\x00b'"},
		{"r", strings.Repeat("x", 256), 0, 4, cannot + "'" + strings.Repeat("x", 256) + "'"},
		{"r", "/triton_python_backend_shm_region_1", 0, 4, "Invalid argument: cannot register shared memory region 'r' with key " +
			"'/triton_python_backend_shm_region_1' as the key contains the reserved prefix 'triton_python_backend_shm_region_'"},
		{
			"r", "//sem.x", 0, 4,
			"Invalid argument: cannot register shared memory region 'r' with key '//sem.x' as the key contains the reserved prefix 'sem.'",
		},
	} {
		got := text(r.RegisterSystem(c.name, c.key, c.offset, c.size))
		if got != c.want {
			t.Errorf("%.20q %.20q %d %d: got\n%s, want\n%s", c.name, c.key, c.offset, c.size, got, c.want)
		}
		if c.name == "r" && r.Unregister(System, "r") != nil {
			t.Error("not unregistered")
		}
	}
	if list, _ := r.Regions(System, ""); len(list) != 1 || list[0] != (Region{Name: "taken", Key: "/a", ByteSize: 64}) {
		t.Errorf("registered: %v", list)
	}
}

func TestUseWithinBounds(t *testing.T) {
	r, _ := open(t, map[string]int{"a": 64})
	register(t, r, "r", "/a", 16, 32)
	for _, c := range []struct {
		name         string
		offset, size uint64
		want         string
	}{
		{"r", 0, 32, "ok"},
		{"r", 31, 1, "ok"},
		{"r", 0, 0, "ok"},
		{"r", 31, 0, "ok"},
		{"r", 32, 0, "Invalid argument: Invalid offset for shared memory region: 'r'"},
		{"r", 1<<64 - 1, 2, "Invalid argument: Invalid offset for shared memory region: 'r'"},
		{"r", 0, 33, "Invalid argument: Invalid offset + byte size for shared memory region: 'r'"},
		{"r", 31, 2, "Invalid argument: Invalid offset + byte size for shared memory region: 'r'"},
		{"r", 1, 1<<64 - 1, "Invalid argument: Invalid offset + byte size for shared memory region: 'r'"},
		{"q", 0, 1, "Not found: Unable to find shared memory region: 'q'"},
	} {
		p, err := r.Use(c.name, c.offset, c.size)
		if got := fault(err); got != c.want {
			t.Errorf("%s %d %d: got %s, want %s", c.name, c.offset, c.size, got, c.want)
		}
		p.Release()
		p.Release() // twice is once
	}
}

func TestReadAndWrite(t *testing.T) {
	r, dir := open(t, map[string]int{"a": 64})
	register(t, r, "r", "/a", 16, 32)
	p, err := r.Use("r", 4, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if got := fault(p.Write([]byte("abcd"))); got != "ok" {
		t.Error(got)
	}
	if got := fault(p.Write(make([]byte, 9))); got == "ok" {
		t.Error("more than the part has room for was written")
	}
	got := make([]byte, 8)
	if err := p.Read(got); err != nil || string(got) != "abcd...." {
		t.Errorf("%q %v", got, err)
	}
	file, _ := os.ReadFile(filepath.Join(dir, "a"))
	want := strings.Repeat(".", 20) + "abcd" + strings.Repeat(".", 40)
	if string(file) != want {
		t.Errorf("got  %q\nwant %q", file, want)
	}
}

// A client may shrink its object at any time: that is an error, the file does
// not grow again, and the server lives.
func TestTruncated(t *testing.T) {
	r, dir := open(t, map[string]int{"a": 1 << 20})
	register(t, r, "r", "/a", 0, 1<<20)
	p, err := r.Use("r", 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	for _, size := range []int64{1<<20 - 1, 4096, 0} {
		if err := os.Truncate(filepath.Join(dir, "a"), size); err != nil {
			t.Fatal(err)
		}
		const why = " shared memory region: 'r': the client has made it smaller than it was when it was registered"
		if got := fault(p.Read(make([]byte, 1<<20))); got != "Invalid argument: Unable to read"+why {
			t.Errorf("read with %d bytes left: %s", size, got)
		}
		if got := fault(p.Write(make([]byte, 1<<20))); got != "Invalid argument: Unable to write"+why {
			t.Errorf("write with %d bytes left: %s", size, got)
		}
		if info, _ := os.Stat(filepath.Join(dir, "a")); info.Size() != size {
			t.Errorf("the file has %d bytes, want %d", info.Size(), size)
		}
	}
}

// A region stays registered while a request uses it, and its memory also when
// the client has unlinked it.
func TestUnregisterInFlight(t *testing.T) {
	r, dir := open(t, map[string]int{"a": 8, "b": 8})
	register(t, r, "r", "/a", 0, 8)
	register(t, r, "other", "/b", 0, 8)
	p, _ := r.Use("r", 0, 8)
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if got := text(r.Unregister(System, "r")); got != "Internal: Cannot unregister shared memory region 'r', it is currently in use." {
		t.Error(got)
	}
	if err := errors.Join(r.Unregister(CUDA, "r"), r.Unregister(CUDA, "other"), r.Unregister(CUDA, "")); err != nil {
		t.Error(err)
	}
	q, _ := r.Use("other", 0, 8)
	if got := text(r.Unregister(System, "")); got != "Internal: Failed to unregister the following system shared memory regions: other ,r ," {
		t.Error(got)
	}
	q.Release()
	if got := text(r.Unregister(System, "")); got != "Internal: Failed to unregister the following system shared memory regions: r ," {
		t.Error(got)
	}
	if list, _ := r.Regions(System, ""); len(list) != 1 || list[0].Name != "r" {
		t.Errorf("registered: %v", list)
	}
	if err := p.Write([]byte("12345678")); err != nil {
		t.Error(err)
	}
	file := p.region.memory.(interface{ Fd() uintptr })
	p.Release()
	if err := r.Unregister(System, "r"); err != nil {
		t.Error(err)
	}
	if fd := file.Fd(); fd != ^uintptr(0) {
		t.Errorf("descriptor %d is still open", fd)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "b")); string(b) != "........" {
		t.Errorf("another region was written: %q", b)
	}
	if err := r.Unregister(System, ""); err != nil || !r.Empty() {
		t.Errorf("%v, empty %v", err, r.Empty())
	}
	r.Close()
	if got := text(r.RegisterSystem("r", "/b", 0, 8)); got != "Unavailable: Server exiting" {
		t.Error(got)
	}
}

// No text that a client gets names anything but what it has named itself.
func TestErrorsNameNothingElse(t *testing.T) {
	r, dir := open(t, map[string]int{"secretobject": 8})
	register(t, r, "secretname", "/secretobject", 0, 8)
	var texts []string
	for _, name := range []string{"r", "", "../secretname"} {
		_, use := r.Use(name, 0, 8)
		_, status := r.Regions(System, "r")
		_, cuda := r.Regions(CUDA, "r")
		texts = append(texts, fault(use), text(status), text(cuda), text(r.RegisterSystem(name, "/nope", 0, 8)),
			text(r.RegisterCUDA(name, make([]byte, 64), 0, 8)))
	}
	if err := os.Truncate(filepath.Join(dir, "secretobject"), 0); err != nil {
		t.Fatal(err)
	}
	p, _ := r.Use("secretname", 0, 8)
	defer p.Release()
	texts = append(texts, strings.ReplaceAll(fault(p.Read(make([]byte, 8))), "secretname", "own"),
		strings.ReplaceAll(fault(p.Write(make([]byte, 8))), "secretname", "own"))
	for _, s := range texts {
		if strings.Contains(strings.ReplaceAll(s, "../secretname", ""), "secret") || strings.Contains(s, dir) || strings.Contains(s, "/proc") {
			t.Errorf("names too much: %s", s)
		}
	}
}

func TestStatus(t *testing.T) {
	r, _ := open(t, map[string]int{"a": 8})
	register(t, r, "b", "/a", 4, 2)
	register(t, r, "a", "a", 0, 8)
	list, err := r.Regions(System, "")
	if want := []Region{{Name: "a", Key: "a", ByteSize: 8}, {Name: "b", Key: "/a", Offset: 4, ByteSize: 2}}; err != nil ||
		!slices.Equal(list, want) {
		t.Errorf("got %v, want %v", list, want)
	}
	for _, c := range []struct {
		kind       Kind
		name, want string
	}{
		{System, "b", "ok"},
		{System, "x", "Not found: Unable to find system shared memory region: 'x'"},
		{CUDA, "x", "Not found: Unable to find cuda shared memory region: 'x'"},
		{CUDA, "b", "Not found: The region named 'b' is registered as system shared memory, not CUDA shared memory"},
	} {
		if _, err := r.Regions(c.kind, c.name); text(err) != c.want {
			t.Errorf("got %s, want %s", text(err), c.want)
		}
	}
}

func TestBounded(t *testing.T) {
	r, _ := open(t, map[string]int{"a": 8})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 2*maxRegions {
		t.Skipf("needs %d descriptors, may have %d", 2*maxRegions, limit.Cur)
	}
	for i := range maxRegions {
		register(t, r, fmt.Sprint(i), "/a", 0, 8)
	}
	if got := text(r.RegisterSystem("r", "/a", 0, 8)); !strings.HasPrefix(got,
		"Unavailable: failed to register shared memory region 'r': 4096 regions") {
		t.Error(got)
	}
}

func TestConcurrently(t *testing.T) {
	r, _ := open(t, map[string]int{"a": 64})
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			b := make([]byte, 64)
			for j := range 100 {
				name := fmt.Sprint((i + j) % 3)
				_ = r.RegisterSystem(name, "/a", 0, 64) // or another was faster
				if p, err := r.Use(name, 0, 64); err == nil {
					if err := p.Read(b); err != nil {
						t.Error(err)
					}
					if err := p.Write(b); err != nil {
						t.Error(err)
					}
					p.Release()
				}
				_ = r.Unregister(System, name)
			}
		})
	}
	work.Wait()
	if err := r.Unregister(System, ""); err != nil || !r.Empty() { // what was in use when it was to go
		t.Errorf("something is left: %v", err)
	}
}

// FuzzKey registers whatever key a client may send: nothing outside of the
// directory is ever reached.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"/a", "a", "", "/", "..", "/../x", "a/b", "/dir/a", "/link", "sem.a", "/a\x00", "/proc/self/mem"} {
		f.Add(s, uint64(0), uint64(8))
	}
	dir := f.TempDir()
	inner := filepath.Join(dir, "shm")
	if err := errors.Join(os.Mkdir(inner, 0o700), os.WriteFile(filepath.Join(inner, "a"), make([]byte, 8), 0o600),
		os.WriteFile(filepath.Join(dir, "x"), make([]byte, 8), 0o600), os.Symlink("../x", filepath.Join(inner, "link"))); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key string, offset, size uint64) {
		r := New(Options{Directory: inner})
		defer r.Close()
		err := r.RegisterSystem("r", key, offset, size)
		fits := size > 0 && size <= 8 && offset <= 8-size
		if want := strings.TrimLeft(key, "/") == "a" && fits; (err == nil) != want {
			t.Errorf("%q %d %d: %v", key, offset, size, err)
		}
	})
}

// A client without access is refused with Triton's text, before anything that
// it says is looked at, and sees no regions.
func TestNoAccess(t *testing.T) {
	r, _ := open(t, map[string]int{"a": 8})
	register(t, r, "a", "/a", 0, 8)
	remote := r.For("tcp", "192.0.2.1:1", false)
	const disabled = "Unsupported: Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
	for what, err := range map[string]error{
		"register": remote.RegisterSystem("b", "/a", 0, 8), "badly": remote.RegisterSystem("", "", 0, 0),
		"cuda":       remote.RegisterCUDA("b", nil, 0, 8),
		"unregister": remote.Unregister(System, "a"), "unregister cuda": remote.Unregister(CUDA, ""),
	} {
		if got := text(err); got != disabled {
			t.Errorf("%s: %s", what, got)
		}
	}
	_, use := remote.Use("a", 0, 8)
	_, named := remote.Regions(System, "a")
	if got := fault(use) + "\n" + text(named); got != "Not found: Unable to find shared memory region: 'a'\nNot found: Unable to find "+
		"system shared memory region: 'a'" {
		t.Error(got)
	}
	if list, err := remote.Regions(System, ""); err != nil || len(list) != 0 || !remote.Empty() || r.Empty() {
		t.Errorf("a remote client sees %v, %v", list, err)
	}
}
