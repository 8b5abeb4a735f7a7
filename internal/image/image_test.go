package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}

// modelTree writes a small model repository and returns its directory.
func modelTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"m/config.pbtxt": "backend: \"python\"", "m/1/model.py": "pass", "m/1/run": "#!", "m/1/__pycache__/x.pyc": "x",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	program := os.Chmod(filepath.Join(dir, "m/1/run"), 0o700) //nolint:gosec // it may be executed
	if err := errors.Join(program, os.Symlink("../1", filepath.Join(dir, "m/2"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustTree(t *testing.T, dir string) *Tree {
	t.Helper()
	tree := NewTree()
	err := tree.CopyDir("models", dir, func(name string, _ os.DirEntry) bool { return filepath.Base(name) == "__pycache__" })
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// build makes an image of one layer.
func build(t *testing.T, tree *Tree, p v1.Platform) v1.Image {
	t.Helper()
	l, err := tree.Layer(t.TempDir(), time.Unix(1, 5))
	if err != nil {
		t.Fatal(err)
	}
	c := Change{Parts: []Part{{l, "models"}}, Env: map[string]string{"B": "2", "A": "1"}, Created: time.Unix(1, 0)}
	Serve(&c, "1.2.3")
	i, err := Build(Scratch(), p, c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestALayerHasTheFilesAndNothingOfThisMachine(t *testing.T) {
	l, err := mustTree(t, modelTree(t)).Layer(t.TempDir(), time.Unix(7, 9))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(7, 0)) {
			t.Errorf("%s: owner %d:%d %q, time %v", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		got = append(got, h.Name+" "+h.FileInfo().Mode().String()+" "+h.Linkname)
	}
	want := []string{
		"models/ drwxr-xr-x ", "models/m/ drwxr-xr-x ", "models/m/1/ drwxr-xr-x ", "models/m/1/model.py -rw-r--r-- ",
		"models/m/1/run -rwxr-xr-x ",
		"models/m/2 Lrwxrwxrwx ../1", "models/m/config.pbtxt -rw-r--r-- ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheSameFilesAreTheSameImage(t *testing.T) {
	var digests []string
	for range 2 {
		d, err := build(t, mustTree(t, modelTree(t)), amd64).Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d.String())
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
	other := mustTree(t, modelTree(t))
	if err := other.File("models/m/config.pbtxt", 0o644, []byte("another")); err != nil {
		t.Fatal(err)
	}
	if d, _ := build(t, other, amd64).Digest(); d.String() == digests[0] {
		t.Error("another file has the same digest")
	}
}

// TestImagesComeBack writes an image in each form, and reads it again.
func TestImagesComeBack(t *testing.T) {
	dir := t.TempDir()
	arm64 := v1.Platform{OS: "linux", Architecture: "arm64"}
	images := []Built{{build(t, mustTree(t, modelTree(t)), amd64), amd64}, {build(t, mustTree(t, modelTree(t)), arm64), arm64}}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/models:1"
	file, layout := filepath.Join(dir, "i.tar"), filepath.Join(dir, "layout")
	if err := errors.Join(Save(file, "models:1", images[0].Image), Layout(layout, "models:1", images)); err != nil {
		t.Fatal(err)
	}
	pushed, err := Push(t.Context(), ref, images)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{file, layout, ref, pushed} {
		for _, b := range images {
			if from == file && b.Platform.Architecture != "amd64" {
				continue
			}
			got, err := Open(t.Context(), from, b.Platform)
			if err != nil {
				t.Errorf("%s %s: %v", from, b.Platform, err)
				continue
			}
			c, err := got.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			want, _ := b.Image.ConfigName()
			if id, _ := got.ConfigName(); id != want || c.Architecture != b.Platform.Architecture {
				t.Errorf("%s %s: got another image: %+v", from, b.Platform, c.Config)
			}
			if Label(got, LabelVersion) != "1.2.3" || Variable(got, "A") != "1" || Variable(got, "C") != "" || c.Config.User != User {
				t.Errorf("%s: %+v", from, c.Config)
			}
		}
	}
	if _, err := Open(t.Context(), file, arm64); err == nil || !strings.Contains(err.Error(), "is for linux/amd64, not for linux/arm64") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".image-*")); left != nil {
		t.Error("left behind:", left)
	}
}

func TestWhatIsNoBase(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.tar")
	if err := os.WriteFile(text, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		filepath.Join(dir, "nothing.tar"): "no such file", text: "text.tar", dir: "no OCI image layout",
		"UPPER:::": "neither a file, nor a directory",
	} {
		if _, err := Open(t.Context(), from, amd64); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ... %s", from, err, want)
		}
	}
}

func TestWhatIsNoTree(t *testing.T) {
	outside := modelTree(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(outside, "m/1/secret")); err != nil {
		t.Fatal(err)
	}
	up := modelTree(t)
	if err := os.Symlink("../../../x", filepath.Join(up, "m/1/up")); err != nil {
		t.Fatal(err)
	}
	tree := NewTree()
	file := tree.File("a", 0o644, nil)
	changing := filepath.Join(t.TempDir(), "grows")
	if err := errors.Join(file, os.WriteFile(changing, []byte("1"), 0o600), tree.Copy("grows", changing, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changing, []byte("123"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, grown := tree.Layer(t.TempDir(), time.Time{})
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"absolute link":     {NewTree().CopyDir("models", outside, nil), "outside of"},
		"link upwards":      {NewTree().CopyDir("models", up, nil), "outside of"},
		"below a file":      {tree.File("a/b", 0o644, nil), "a is no directory"},
		"file on directory": {tree.Dir("a", 0o755), "is a directory and a file"},
		"absolute":          {tree.File("/etc/passwd", 0o644, nil), "is no path in an image"},
		"upwards":           {tree.File("../x", 0o644, nil), "is no path in an image"},
		"no target":         {tree.Link("l", ""), "expected the target"},
		"no file":           {tree.Copy("d", t.TempDir(), 0o644), "expected a file"},
		"a file that grows": {grown, errChanged.Error()},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want ... %s", name, tt.err, tt.want)
		}
	}
}

func TestSBOM(t *testing.T) {
	tree := NewTree()
	if err := errors.Join(
		tree.File("p/x-1.0.dist-info/METADATA", 0o644, []byte(strings.ReplaceAll(
			"Metadata-Version: 2.4\nName: Foo_Bar\nVersion: 1.0+cpu\nLicense-Expression: MIT\n\nText: here", "\n", "\r\n"))),
		tree.File("p/x-1.0.dist-info/RECORD", 0o644, nil)); err != nil {
		t.Fatal(err)
	}
	packages, err := tree.PythonPackages()
	if err != nil {
		t.Fatal(err)
	}
	packages = append(packages, Package{Kind: "deb", Name: "libstdc++6", Version: "12.2.0-14", Architecture: "amd64"}, packages[0])
	a, err := SBOM("x", time.Unix(0, 0), packages)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(packages)
	if b, _ := SBOM("x", time.Unix(0, 0), packages); !bytes.Equal(a, b) {
		t.Error("another order gives other bytes")
	}
	var doc document
	if err := json.Unmarshal(a, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range doc.Packages {
		got = append(got, p.ID+" "+p.License+" "+p.References[0].Locator)
	}
	want := []string{
		"SPDXRef-deb-libstdc--6-0 NOASSERTION pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64",
		"SPDXRef-pypi-Foo-Bar-1 MIT pkg:pypi/foo-bar@1.0%2Bcpu",
	}
	if !slices.Equal(got, want) || len(doc.Relations) != 2 || doc.Created.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("got %q, %+v", got, doc)
	}
	if _, err := describe([]byte("Name: x\n\n")); err == nil {
		t.Error("a package without a version")
	}
	own, err := GoPackages(os.Args[0])
	if err != nil || own[0].Name != "stdlib" || len(own) < 2 {
		t.Errorf("%v %v", own, err)
	}
}
