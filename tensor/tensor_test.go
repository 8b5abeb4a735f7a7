package tensor

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestDatatypeNamesRoundTrip(t *testing.T) {
	if len(Datatypes()) != 14 {
		t.Fatalf("%d datatypes, want 14", len(Datatypes()))
	}
	sizes := map[Datatype]int{
		Bool: 1, Uint8: 1, Int8: 1, Uint16: 2, Int16: 2, FP16: 2, BF16: 2, Uint32: 4, Int32: 4, FP32: 4, Uint64: 8,
		Int64: 8, FP64: 8, Bytes: 0,
	}
	for _, d := range Datatypes() {
		if got, err := ParseDatatype(d.String()); got != d || err != nil {
			t.Errorf("%s parses as %s, %v", d, got, err)
		}
		if d.Size() != sizes[d] || !d.Valid() {
			t.Errorf("%s: size %d, valid %v", d, d.Size(), d.Valid())
		}
	}
	for _, bad := range []string{"", "fp32", "FP7", "TYPE_FP32", "STRING", "<invalid>"} {
		if d, err := ParseDatatype(bad); err == nil || d != Invalid {
			t.Errorf("%q parses as %s", bad, d)
		}
	}
	for d, want := range map[Datatype]string{Invalid: "<invalid>", Datatype(200): "<invalid>"} {
		if d.String() != want || d.Valid() || d.Size() != 0 || d.ConfigName() != "TYPE_INVALID" {
			t.Errorf("datatype %d: %s", d, d)
		}
	}
	if Bytes.ConfigName() != "TYPE_STRING" || BF16.ConfigName() != "TYPE_BF16" {
		t.Error("config names")
	}
}

func TestShapeCounts(t *testing.T) {
	for _, c := range []struct {
		shape    Shape
		d        Datatype
		elements int64
		bytes    int64
		err      error
	}{
		{nil, FP32, 1, 4, nil},
		{Shape{2, 3}, FP64, 6, 48, nil},
		{Shape{0, math.MaxInt64, math.MaxInt64}, FP32, 0, 0, nil},
		{Shape{math.MaxInt64}, Uint8, math.MaxInt64, math.MaxInt64, nil},
		{Shape{math.MaxInt64}, Int16, math.MaxInt64, 0, ErrOverflow},
		{Shape{1 << 32, 1 << 31}, Uint8, 0, 0, ErrOverflow},
		{Shape{6148914691236517206, 3}, FP32, 0, 0, ErrOverflow}, // wraps to 2
		{Shape{1 << 62, 4}, FP32, 0, 0, ErrOverflow},             // wraps to 0
		{Shape{2, -1}, FP32, 0, 0, ErrWildcard},
		{Shape{3}, Bytes, 3, 12, nil},
	} {
		n, err := c.shape.Elements()
		if err == nil && n != c.elements || err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v: %d elements, %v", c.shape, n, err)
		}
		size, err := ByteSize(c.d, c.shape)
		if size != c.bytes || !errors.Is(err, c.err) {
			t.Errorf("%v %s: %d bytes, %v; want %d, %v", c.shape, c.d, size, err, c.bytes, c.err)
		}
	}
}

// TestElementsAgainstBigIntegers compares with arithmetic that cannot overflow.
func TestElementsAgainstBigIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		s := make(Shape, rng.IntN(5))
		product := big.NewInt(1)
		for i := range s {
			s[i] = rng.Int64() >> rng.IntN(63)
			product.Mul(product, big.NewInt(s[i]))
		}
		n, err := s.Elements()
		if product.IsInt64() != (err == nil) || err == nil && product.Int64() != n {
			t.Fatalf("%v: got %d, %v; want %v", s, n, err, product)
		}
	}
}

func TestShapeMatchesAndPrints(t *testing.T) {
	if !(Shape{2, 5}).Matches(Shape{-1, 5}) || (Shape{2, 5}).Matches(Shape{-1, 4}) || (Shape{2}).Matches(Shape{-1, -1}) ||
		!(Shape{}).Matches(nil) {
		t.Error("Matches")
	}
	if got := (Shape{-1, 16}).String(); got != "[-1,16]" {
		t.Error(got)
	}
	if !(Shape{1, -1}).HasWildcard() || (Shape{1, 0}).HasWildcard() {
		t.Error("HasWildcard")
	}
	a := Shape{1, 2}
	b := a.Clone()
	b[0] = 9
	if a[0] != 1 || a.Equal(b) {
		t.Error("Clone shares memory")
	}
}

type releases int

func (r *releases) ReleaseBuffer(*Buffer) { *r++ }

func TestBufferIsReleasedOnce(t *testing.T) {
	var n releases
	b := NewBuffer(make([]byte, 3), &n)
	tensor := Tensor{Name: "x", Data: b.Bytes(), Buffer: b}
	view := tensor.View(Shape{3})
	tensor.Retain()
	view.Release()
	if n != 0 || b.References() != 1 || view.Data != nil {
		t.Fatalf("released %d times with a reference left", n)
	}
	tensor.Release()
	if n != 1 {
		t.Fatalf("released %d times, want 1", n)
	}
	for name, misuse := range map[string]func(){"Release": b.Release, "Retain": func() { b.Retain() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a freed buffer is not noticed", name)
				}
			}()
			misuse()
		}()
	}
	(*Buffer)(nil).Release() // a tensor without a buffer
}
