package elements

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nesoserve/neso/tensor"
)

func TestBothWays(t *testing.T) {
	for _, c := range []struct {
		d    tensor.Datatype
		text string
		n    int64
	}{
		{tensor.Bool, "[true,false]", 2},
		{tensor.Uint8, "[0,255]", 2},
		{tensor.Uint64, "[18446744073709551615]", 1},
		{tensor.Int8, "[-128,127]", 2},
		{tensor.Int64, "[-9223372036854775808]", 1},
		{tensor.FP16, "[1.5,-2,65504]", 3},
		{tensor.BF16, "[1.5,-2]", 2},
		{tensor.FP32, "[0.1,3.4028235e+38]", 2},
		{tensor.FP64, "[0.1,1e+300]", 2},
		{tensor.Bytes, `["a\"\n","","ü"]`, 3},
		{tensor.Int32, "[]", 0},
	} {
		data, err := Parse(c.d, []byte(c.text), c.n)
		if err != nil {
			t.Errorf("%s %s: %v", c.d, c.text, err)
			continue
		}
		if text, err := Append(nil, c.d, data); err != nil || string(text) != c.text {
			t.Errorf("%s: got %s, %v, want %s", c.d, text, err, c.text)
		}
	}
	nested, err := Parse(tensor.Int16, []byte(" [[1, 2], [3, -1]] "), 4)
	if want := []byte{1, 0, 2, 0, 3, 0, 255, 255}; err != nil || !bytes.Equal(nested, want) {
		t.Errorf("%v, %v", nested, err)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		d         tensor.Datatype
		text, bad string
	}{
		{tensor.Int8, "[1, 128]", "element 1: expected INT8, got 128"},
		{tensor.Uint8, "[-1, 0]", "expected UINT8, got -1"},
		{tensor.Int32, "[1.5, 0]", "expected INT32, got 1.5"},
		{tensor.Int32, `["1", 0]`, "expected INT32, got 1"},
		{tensor.Bytes, "[1, 2]", "expected BYTES"},
		{tensor.Bool, "[2, 0]", "expected BOOL"},
		{tensor.FP32, "[1]", "expected 2 elements, got 1"},
		{tensor.FP32, "[1, 2, 3]", "more than 2 elements"},
		{tensor.FP32, "[1, 2", "not JSON"},
		{tensor.FP32, "", "not JSON"},
		{tensor.FP32, "[1, {}]", "expected FP32"},
		{tensor.FP32, "[1, null]", "expected FP32"},
		{tensor.FP32, "[1, 2] 3", "more than one value"},
		{tensor.FP32, strings.Repeat("[", 1000), "nest deeper"},
		{tensor.Invalid, "[1, 2]", "unknown datatype"},
	} {
		if _, err := Parse(c.d, []byte(c.text), 2); err == nil || !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%.30s: got %v, want %s", c.text, err, c.bad)
		}
	}
	if _, err := Append(nil, tensor.FP32, []byte{0, 0, 0x80, 0x7f}); err == nil {
		t.Error("infinity as JSON: no error")
	}
	if _, err := Append(nil, tensor.Bytes, []byte{9, 0, 0, 0}); err == nil {
		t.Error("cut off: no error")
	}
}

// FuzzParse: what is read is written, and read again as the same.
func FuzzParse(f *testing.F) {
	f.Add(uint8(tensor.FP32), []byte("[[1, 2.5], [3, 4]]"), int64(4))
	f.Add(uint8(tensor.Bytes), []byte(`["a", "b"]`), int64(2))
	f.Fuzz(func(t *testing.T, kind uint8, text []byte, n int64) {
		d := tensor.Datatype(kind)
		data, err := Parse(d, text, n)
		if err != nil {
			return
		}
		again, err := Append(nil, d, data)
		if err != nil {
			return // an FP16 that became infinite
		}
		if back, err := Parse(d, again, n); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%s as %s: %x, then %x, %v", text, d, data, back, err)
		}
	})
}
