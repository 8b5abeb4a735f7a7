package remote

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

func TestReadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	raw, text, list := write("raw.bin", "01234567"), write("a.txt", "hi"), write("x.json", "[[1], [2]]")
	for name, c := range map[string]struct {
		datatype string
		model    []int64
		shape    tensor.Shape
		value    string
		want     tensor.Shape
		data     string // JSON, or bytes
		fault    string
	}{
		"list":        {datatype: "INT32", model: []int64{2}, value: "[1,2]", want: tensor.Shape{2}, data: "[1,2]"},
		"batch added": {datatype: "INT32", model: []int64{-1, 2}, value: "[1,2]", want: tensor.Shape{1, 2}, data: "[1,2]"},
		"nested": {
			datatype: "FP32", model: []int64{-1, 2}, value: "[[1,2],[3,4.5]]", want: tensor.Shape{2, 2},
			data: "[[1,2],[3,4.5]]",
		},
		"one number": {datatype: "FP32", model: []int64{-1, 1}, value: "5", want: tensor.Shape{1, 1}, data: "[5]"},
		"scalar":     {datatype: "FP32", model: []int64{}, value: "5", want: tensor.Shape{}, data: "[5]"},
		"large integer": {
			datatype: "INT64", model: []int64{1}, value: "9223372036854775807", want: tensor.Shape{1},
			data: "[9223372036854775807]",
		},
		"text":              {datatype: "BYTES", model: []int64{-1, 1}, value: "hello world", want: tensor.Shape{1, 1}, data: `["hello world"]`},
		"text like numbers": {datatype: "BYTES", model: []int64{1}, value: "5", want: tensor.Shape{1}, data: `["5"]`},
		"list of text":      {datatype: "BYTES", model: []int64{-1}, value: `["a","b"]`, want: tensor.Shape{2}, data: `["a","b"]`},
		"shape given": {
			datatype: "FP32", model: []int64{-1, -1}, shape: tensor.Shape{2, 1}, value: "[1,2]", want: tensor.Shape{2, 1},
			data: "[1,2]",
		},
		"empty":        {datatype: "FP32", model: []int64{-1}, value: "[]", want: tensor.Shape{0}, data: "[]"},
		"JSON file":    {datatype: "FP32", model: []int64{-1, 1}, value: list, want: tensor.Shape{2, 1}, data: "[[1],[2]]"},
		"raw file":     {datatype: "FP32", model: []int64{-1, 2}, value: raw, want: tensor.Shape{1, 2}, data: "01234567"},
		"raw batch":    {datatype: "UINT8", model: []int64{-1, -1}, value: raw, want: tensor.Shape{1, 8}, data: "01234567"},
		"raw text":     {datatype: "BYTES", model: []int64{-1, 1}, value: text, want: tensor.Shape{1, 1}, data: "\x02\x00\x00\x00hi"},
		"raw too odd":  {datatype: "FP32", model: []int64{-1, 3}, value: raw, fault: "do not divide into pieces of 12"},
		"raw too open": {datatype: "UINT8", model: []int64{-1, -1, -1}, value: raw, fault: "say --shape X="},
		"no JSON":      {datatype: "FP32", model: []int64{1}, value: "x", fault: "expected JSON"},
		"two values":   {datatype: "FP32", model: []int64{1}, value: "1 2", fault: "more than one value, an array is written [1,2]"},
		"no file":      {datatype: "FP32", model: []int64{1}, value: "@" + dir + "/none", fault: "no such file"},
		"no array":     {datatype: "FP32", model: []int64{1}, value: write("bad.npy", "hello, hello"), fault: "expected an array"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readInput(client.TensorMetadata{Name: "X", Datatype: c.datatype, Shape: c.model}, c.value, c.shape)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("got %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if data := string(got.JSON) + string(got.Data); !got.Shape.Equal(c.want) || data != c.data {
				t.Errorf("got %s %q, want %s %q", got.Shape, data, c.want, c.data)
			}
		})
	}
}

func TestPrintElements(t *testing.T) {
	for want, o := range map[string]client.Output{
		`[[1, -1], [2, 3]]`: {Datatype: tensor.Int8, Shape: tensor.Shape{2, 2}, Data: []byte{1, 255, 2, 3}},
		`[true, false]`:     {Datatype: tensor.Bool, Shape: tensor.Shape{2}, Data: []byte{1, 0}},
		`[1, -2, 0.5, 65504, NaN]`: {
			Datatype: tensor.FP16, Shape: tensor.Shape{5},
			Data: []byte{0, 0x3c, 0, 0xc0, 0, 0x38, 0xff, 0x7b, 1, 0x7e},
		},
		`[5.9604645e-08, -Infinity]`: {Datatype: tensor.FP16, Shape: tensor.Shape{2}, Data: []byte{1, 0, 0, 0xfc}},
		`[1.5, Infinity]`:            {Datatype: tensor.BF16, Shape: tensor.Shape{2}, Data: []byte{0xc0, 0x3f, 0x80, 0x7f}},
		`["a", "\"b"]`: {
			Datatype: tensor.Bytes, Shape: tensor.Shape{2},
			Data: tensor.AppendElement(tensor.AppendElement(nil, "a"), `"b`),
		},
		`[[[1]], [[2]]]`:                {Datatype: tensor.Uint8, Shape: tensor.Shape{2, 1, 1}, Data: []byte{1, 2}},
		`[]`:                            {Datatype: tensor.Uint8, Shape: tensor.Shape{2, 0}},
		`7`:                             {Datatype: tensor.Uint8, Data: []byte{7}},
		`[[0, 1], [2, ... 6 elements]]`: {Datatype: tensor.Uint8, Shape: tensor.Shape{3, 2}, Data: []byte{0, 1, 2, 3, 4, 5}},
		`[18446744073709551615]`:        {Datatype: tensor.Uint64, Shape: tensor.Shape{1}, Data: bytes.Repeat([]byte{255}, 8)},
	} {
		limit := 5
		if strings.Contains(want, "...") {
			limit = 3
		}
		if got := string(appendNested(nil, &o, limit)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzNPY(f *testing.F) {
	o := &client.Output{Datatype: tensor.FP32, Shape: tensor.Shape{2, 1}, Data: make([]byte, 8)}
	good, err := appendNPY(nil, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte(npyMagic + "\x02\x00\xff\xff\xff\xff..."))
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := parseNPY(content)
		if err != nil {
			return
		}
		again, err := appendNPY(nil, &client.Output{Datatype: a.datatype, Shape: a.shape, Data: a.data})
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseNPY(again)
		if err != nil || !cmp.Equal(a, b, cmp.AllowUnexported(npyArray{})) {
			t.Errorf("%v: %v, then %v", err, a, b)
		}
	})
}

func TestSplitInput(t *testing.T) {
	texts := tensor.AppendElement(tensor.AppendElement(nil, "long"), "")
	for name, c := range map[string]struct {
		in    client.Input
		want  []string
		fault string
	}{
		"nested": {
			in:   client.Input{Datatype: tensor.Int8, Shape: tensor.Shape{2, 2}, JSON: []byte(`[[1, 2], [3, -1]]`)},
			want: []string{"\x01\x02", "\x03\xff"},
		},
		"flat":  {in: client.Input{Datatype: tensor.Int8, Shape: tensor.Shape{2, 1}, JSON: []byte(`[1, 2]`)}, want: []string{"\x01", "\x02"}},
		"bytes": {in: client.Input{Datatype: tensor.Int16, Shape: tensor.Shape{2}, Data: []byte("abcd")}, want: []string{"ab", "cd"}},
		"texts": {
			in:   client.Input{Datatype: tensor.Bytes, Shape: tensor.Shape{2, 1}, Data: texts},
			want: []string{"\x04\x00\x00\x00long", "\x00\x00\x00\x00"},
		},
		"empty":  {in: client.Input{Datatype: tensor.FP32, Shape: tensor.Shape{2, 0}, JSON: []byte("[]")}, want: []string{"", ""}},
		"other":  {in: client.Input{Datatype: tensor.Int8, Shape: tensor.Shape{3}, Data: []byte("abc")}, fault: "expected 2 samples"},
		"few":    {in: client.Input{Datatype: tensor.Int8, Shape: tensor.Shape{2, 2}, Data: []byte("abc")}, fault: "expected 4 elements"},
		"torn":   {in: client.Input{Datatype: tensor.Int16, Shape: tensor.Shape{2}, Data: []byte("abc")}, fault: "not whole elements"},
		"words":  {in: client.Input{Datatype: tensor.Bytes, Shape: tensor.Shape{2, 2}, Data: texts}, fault: "expected 4 elements"},
		"scalar": {in: client.Input{Datatype: tensor.Int8, Data: []byte("a")}, fault: "expected 2 samples"},
	} {
		pieces, err := splitInput(&c.in, 2)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %s", name, err, c.fault)
			}
			continue
		}
		var got []string
		for _, p := range pieces {
			got = append(got, string(p.Data))
			if p.Shape[0] != 1 {
				t.Errorf("%s: shape %s", name, p.Shape)
			}
		}
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}
