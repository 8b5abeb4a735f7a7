package tensor

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func encode(elements ...string) []byte {
	var b []byte
	for _, e := range elements {
		b = AppendElement(b, e)
	}
	return b
}

func TestBytesRoundTrip(t *testing.T) {
	want := []string{"a", "", "\x00é", string(make([]byte, 70000))}
	data := encode(want...)
	n, err := CountBytes(data)
	if n != len(want) || err != nil {
		t.Fatalf("%d elements, %v", n, err)
	}
	var got []string
	for i, e := range Elements(data) {
		if i != len(got) {
			t.Errorf("index %d, want %d", i, len(got))
		}
		got = append(got, string(e))
	}
	if !slices.Equal(got, want) {
		t.Error("the elements have changed")
	}
	for i := range len(want) + 1 {
		size, err := SplitBytes(data, i)
		if err != nil || size != len(encode(want[:i]...)) {
			t.Errorf("the first %d elements take %d bytes, %v", i, size, err)
		}
	}
}

func TestMalformedBytes(t *testing.T) {
	for _, c := range []struct {
		data []byte
		want BytesError
	}{
		{[]byte{1, 0}, BytesError{Element: 0, Offset: 0, Want: 4, Have: 2, Prefix: true}},
		{[]byte{5, 0, 0, 0, 'a'}, BytesError{Element: 0, Offset: 0, Want: 5, Have: 1}},
		{append(encode("ab"), 0xff, 0xff, 0xff, 0xff), BytesError{Element: 1, Offset: 6, Want: 1<<32 - 1, Have: 0}},
		{append(encode("ab"), 0), BytesError{Element: 1, Offset: 6, Want: 4, Have: 1, Prefix: true}},
	} {
		_, err := CountBytes(c.data)
		var got *BytesError
		if !errors.As(err, &got) || *got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.data, got, c.want)
		}
		if _, err := SplitBytes(c.data, c.want.Element+1); !errors.As(err, &got) || *got != c.want {
			t.Errorf("SplitBytes %v: %v", c.data, err)
		}
		if err.Error() == "" {
			t.Error("no text")
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add(encode("a", "", "bc"))
	f.Add([]byte{255, 255, 255, 255})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := CountBytes(data)
		var rebuilt []byte
		seen := 0
		for _, e := range Elements(data) {
			rebuilt = AppendElement(rebuilt, e)
			seen++
		}
		if !bytes.HasPrefix(data, rebuilt) || seen != n {
			t.Fatalf("%d elements counted, %d seen", n, seen)
		}
		if (err == nil) != (len(rebuilt) == len(data)) {
			t.Fatalf("error %v, %d of %d bytes are elements", err, len(rebuilt), len(data))
		}
		if size, err := SplitBytes(data, n); err != nil || size != len(rebuilt) {
			t.Fatalf("SplitBytes: %d, %v; want %d", size, err, len(rebuilt))
		}
		if _, err := SplitBytes(data, n+1); err == nil {
			t.Fatal("more elements than there are")
		}
	})
}
