//go:build linux && (amd64 || arm64) && !nopurego

package gpu

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ebitengine/purego"
)

// compile builds the fake library.
func compile(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler for the fake library:", err)
	}
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-o", library,
		"testdata/fakenvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return library
}

func TestDevices(t *testing.T) {
	library := compile(t)
	word := func(s string) *string { return &s }
	for _, c := range []struct {
		visible *string
		want    string
	}{
		{nil, "0=One/8.9 1=Two/9.0 2=Old/5.2 "},
		{word("1,0"), "0=Two/9.0 1=One/8.9 "},
		{word("GPU-bbcc,GPU-a"), "0=Old/5.2 1=One/8.9 "},
		{word("GPU-bb,0"), ""}, // two begin so
		{word("0,7,1"), "0=One/8.9 "},
		{word("0,0"), "0=One/8.9 "},
		{word(""), ""},
		{word("-1"), ""},
		{word("NoDevFiles"), ""},
	} {
		name, got := "not set", ""
		if c.visible != nil {
			name = *c.visible
		}
		d, err := Open(Options{Library: library, CUDA: library, Visible: c.visible})
		if (c.want == "") != errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
		for _, g := range d.Devices() {
			got += fmt.Sprintf("%d=%s/%s ", g.Number, g.Name[len("NVIDIA "):], g.Capability())
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		d.Close()
	}
	if _, err := Open(Options{Library: library, CUDA: library + ".missing"}); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("GPUs without CUDA: %v", err)
	}
	if n := users(t, library); n != 0 {
		t.Errorf("the library is still open %d times", n)
	}
}

func TestRead(t *testing.T) {
	library := compile(t)
	d, err := Open(Options{Library: library, CUDA: library})
	if err != nil {
		t.Fatal(err)
	}
	first := d.Devices()[0]
	got := d.Read()
	d.Close()
	d.Close()
	want := []Reading{
		{UUID: first.UUID, Utilization: 0.37, MemoryTotal: 1000, MemoryUsed: 250, PowerUsage: 71.5, PowerLimit: 300, Energy: 2},
		{UUID: d.Devices()[1].UUID, Utilization: 0.37, MemoryTotal: 1000, MemoryUsed: 250, PowerUsage: 71.5, PowerLimit: 300, Energy: 2},
		{UUID: d.Devices()[2].UUID, Utilization: -1, MemoryTotal: -1, MemoryUsed: -1, PowerUsage: -1, PowerLimit: -1, Energy: -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := d.Read(); got != nil {
		t.Errorf("a closed library tells %v", got)
	}
}

func TestAtLeast(t *testing.T) {
	d := Device{Major: 6, Minor: 1}
	for least, want := range map[float64]bool{0: true, 6: true, 6.1: true, 6.2: false, 7: false} {
		if got := len(Of([]Device{d}, least).Devices) == 1; d.AtLeast(least) != want || got != want {
			t.Errorf("6.1 against %v: %v", least, !want)
		}
	}
}

func TestNoLibrary(t *testing.T) {
	d, err := Open(Options{Library: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")})
	if err == nil || d.Devices() != nil || d.Read() != nil {
		t.Errorf("a library that is not there: %v", err)
	}
	d.Close()
}

func users(t *testing.T, library string) int {
	t.Helper()
	l, err := purego.Dlopen(library, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	f, err := purego.Dlsym(l, "fakeUsers")
	if err != nil {
		t.Fatal(err)
	}
	n, _, _ := purego.SyscallN(f)
	return int(n)
}
