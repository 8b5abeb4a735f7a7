package modelfile

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nesoserve/neso/backend"
)

// in puts a message into a field of another one.
func in(field protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), bytes.Join(parts, nil))
}

// outside is a tensor whose bytes lie in a file.
func outside(place string) []byte {
	entry := func(key, value string) []byte { return in(13, in(1, []byte(key)), in(2, []byte(value))) }
	return slices.Concat(protowire.AppendVarint(protowire.AppendTag(nil, 14, protowire.VarintType), 1), entry("location", place),
		entry("length", "16"))
}

// network is an ONNX file with such tensors as initializers, with weights of its
// own before them.
func network(places ...string) []byte {
	graph := [][]byte{in(5, in(9, make([]byte, 200<<10)))}
	for _, p := range places {
		graph = append(graph, in(5, outside(p)))
	}
	return slices.Concat(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8), in(7, graph...))
}

func TestExternalPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want []string
		err  error
	}{
		"none":             {network(), nil, nil},
		"empty":            {nil, nil, nil},
		"initializers":     {network("a", "b/c", "a"), []string{"a", "b/c"}, nil},
		"of a node":        {in(7, in(1, in(5, in(5, outside("x")), in(10, outside("y"))))), []string{"x", "y"}, nil},
		"of a subgraph":    {in(7, in(1, in(5, in(6, in(5, outside("x")))), in(5, in(11, in(5, outside("y")))))), []string{"x", "y"}, nil},
		"sparse":           {in(7, in(15, in(1, outside("v")), in(2, outside("i")))), []string{"i", "v"}, nil},
		"of a function":    {in(25, in(7, in(5, in(5, outside("x"))))), []string{"x"}, nil},
		"value before key": {in(7, in(5, in(13, in(2, []byte("x")), in(1, []byte("location"))))), []string{"x"}, nil},
		"too long":         {network(strings.Repeat("a", maxPlace+1)), nil, errTooMany},
		"cut off":          {network("a")[:100<<10], nil, errNotOnnx},
		"a group":          {[]byte{0x0b}, nil, errNotOnnx},
		"an endless tag":   {bytes.Repeat([]byte{0xff}, 20), nil, errNotOnnx},
	} {
		got, err := externalPlaces(bytes.NewReader(c.file), int64(len(c.file)))
		slices.Sort(got)
		if !slices.Equal(got, c.want) || err != c.err { //nolint:errorlint // made there, never wrapped
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
}

func TestExternal(t *testing.T) {
	top := t.TempDir()
	version := filepath.Join(top, "m", "1")
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		if err := os.Symlink(to, path); err != nil {
			t.Skip("there are no links here: ", err)
		}
	}
	secret := filepath.Join(top, "secret")
	write(secret, nil)
	write(filepath.Join(version, "w"), nil)
	write(filepath.Join(version, "sub", "w"), nil)
	link(secret, filepath.Join(version, "link"))
	link(top, filepath.Join(version, "dir"))
	link("w", filepath.Join(version, "beside"))
	for place, want := range map[string]string{
		"w": "", "sub/w": "", "./w": "", "sub/../w": "", "beside": "", "nothing": "",
		secret: "is absolute", "/etc/passwd": "is absolute", "../w": "leads out", "sub/../../w": "leads out", "": "leads out",
		inMemory: "an address", "link": "is a link out", "dir/secret": "is a link out",
	} {
		file := filepath.Join(version, "model.onnx")
		write(file, network("w", place))
		err := External(&backend.Config{Name: "m"}, file)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			backend.AsError(err).Code != backend.InvalidArg) {
			t.Errorf("%q: %v, want %q", place, err, want)
		}
	}
	// A cache of downloads: both are links to where the contents lie.
	blobs := filepath.Join(top, "blobs")
	write(filepath.Join(blobs, "1234"), network("w.bin"))
	write(filepath.Join(blobs, "5678"), nil)
	cached := filepath.Join(top, "cached")
	write(filepath.Join(cached, "x"), nil)
	link(filepath.Join(blobs, "1234"), filepath.Join(cached, "model.onnx"))
	link(filepath.Join(blobs, "5678"), filepath.Join(cached, "w.bin"))
	if err := External(&backend.Config{Name: "m"}, filepath.Join(cached, "model.onnx")); err != nil {
		t.Error(err)
	}
}

func FuzzExternalPlaces(f *testing.F) {
	f.Add(in(7, in(5, in(9, []byte("weights"))), in(5, outside("a")), in(5, outside("../b"))))
	f.Add(in(7, in(1, in(5, in(6, in(5, outside("x")))))))
	f.Fuzz(func(t *testing.T, file []byte) {
		places, err := externalPlaces(bytes.NewReader(file), int64(len(file)))
		for _, p := range places {
			if len(p) > maxPlace || err == nil && !bytes.Contains(file, []byte(p)) {
				t.Errorf("%q is not in the file", p)
			}
		}
	})
}
