package responsecache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/tensor"
)

func encoded(t testing.TB, p tensor.Allocator, n, size int) []byte {
	t.Helper()
	e := entry(t, p, n, size)
	defer e.Release()
	bytes, ok := encodedSize(e)
	if !ok {
		t.Fatal("cannot be encoded")
	}
	b := encode(nil, key(n), e)
	if len(b) > bytes {
		t.Errorf("%d bytes, expected at most %d", len(b), bytes)
	}
	return b
}

func TestEntryRoundTrip(t *testing.T) {
	p := pool(t)
	for n, size := range []int{0, 7, 100_000} {
		e, err := decode(encoded(t, p, n, size), key(n), p)
		if err != nil {
			t.Fatal(err)
		}
		is(t, e, n, size)
	}
}

func TestForeignBytes(t *testing.T) {
	p := pool(t)
	good := encoded(t, p, 1, 10)
	at := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	long := func(i int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[i:], v)
		return b
	}
	output := headSize + 2 + 3 // behind the first name: datatype, rank, dimensions, bytes
	for name, c := range map[string]struct {
		value []byte
		want  error
	}{
		"nothing":             {nil, errFormat},
		"something else":      {[]byte("hello, I am a string that somebody has put there, as long as a head is"), errFormat},
		"another version":     {at(4, 2), errFormat},
		"another key":         {at(8, '9'), errKey},
		"cut off":             {good[:len(good)-1], errShort},
		"too long":            {append(bytes.Clone(good), 0), errShort},
		"many outputs":        {long(40, 1<<14), errShort},
		"too many outputs":    {long(40, 1<<31), errTooLong},
		"too many parameters": {long(44, 1<<32-1), errTooLong},
		"datatype":            {at(output, 99), errTensor},
		"another datatype":    {at(output, byte(tensor.FP64)), errTensor},
		"rank":                {at(output+1, 255), errShort},
		"negative dimension":  {at(output+2+7, 0x80), errTensor},
		"huge dimension":      {at(output+2+6, 0x80), errTensor},
		"huge tensor":         {at(output+2+16+7, 0x7f), errShort},
		"negative tensor":     {at(output+2+16+7, 0xff), errShort},
		"too large for us":    {make([]byte, MaxValue+1), errTooLong},
	} {
		e, err := decode(c.value, key(1), p)
		if !errors.Is(err, c.want) || e != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
			e.Release()
		}
	}
	for n := range good {
		if e, err := decode(good[:n], key(1), p); err == nil {
			t.Errorf("%d of %d bytes make an entry", n, len(good))
			e.Release()
		}
	}
}

func FuzzDecode(f *testing.F) {
	p := memory.New(memory.Options{})
	good := encoded(f, p, 1, 10)
	f.Add(good)
	f.Add(good[:headSize])
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) >= headSize { // the key would keep the fuzzer out
			k := key(1)
			copy(value[8:], k[:])
		}
		e, err := decode(value, key(1), p)
		if err != nil {
			return
		}
		defer e.Release()
		for i := range e.outputs {
			if !consistent(&e.outputs[i]) {
				t.Fatalf("output %d: %+v", i, e.outputs[i])
			}
		}
		again := encode(nil, key(1), e)
		other, err := decode(again, key(1), p)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		other.Release()
	})
}

// changing is an allocator while which somebody writes to what is being read.
type changing struct {
	tensor.Allocator
	change func()
}

func (c changing) Allocate(size int) (*tensor.Buffer, error) {
	c.change()
	return c.Allocator.Allocate(size)
}

// The library of a cache goes on having the memory of the values that it returns: what
// it changes there does not get past the look at it.
func TestDecodeOfWhatChanges(t *testing.T) {
	p := memory.New(memory.Options{})
	defer p.Close()
	resp := &backend.Response{Outputs: []tensor.Tensor{{
		Name: "OUT", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: tensor.AppendElement(nil, []byte("word")),
	}}}
	e, err := NewEntry(resp, MaxValue, p)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := encodedSize(e)
	value := encode(make([]byte, 0, size), key(1), e)
	e.Release()
	lie := func() { value[len(value)-len("word")-4] = 200 } // the length of the element
	if e, err := decode(value, key(1), changing{p, lie}); err == nil {
		t.Errorf("an element of 200 bytes in %q", e.Outputs()[0].Data)
		e.Release()
	}
	if leaks := p.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %v", leaks)
	}
}
