package rollout

import (
	"math"
	"strings"
	"testing"

	"github.com/nesoserve/neso/tensor"
)

func of[T tensor.Element](t *testing.T, values ...T) tensor.Tensor {
	t.Helper()
	x, err := tensor.New("x", tensor.Shape{int64(len(values))}, values)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	one := func(x tensor.Tensor) []tensor.Tensor { return []tensor.Tensor{x} }
	named := of(t, int8(1))
	named.Name = "y"
	shaped := of(t, int8(1), 2)
	shaped.Shape = tensor.Shape{1, 2}
	for name, c := range map[string]struct {
		a, b []tensor.Tensor
		tol  Tolerance
		want Outcome
		why  string
	}{
		"equal":    {one(of(t, float32(1), nan)), one(of(t, float32(1), nan)), Tolerance{}, Equal, ""},
		"zeros":    {one(of(t, float32(0))), one(of(t, float32(math.Copysign(0, -1)))), Tolerance{}, Close, ""},
		"absolute": {one(of(t, float32(1))), one(of(t, float32(1.05))), Tolerance{Absolute: 0.1}, Close, ""},
		"relative": {one(of(t, 1000.0)), one(of(t, 1009.0)), Tolerance{Relative: 0.01}, Close, ""},
		"beyond":   {one(of(t, 1.0, 5.0)), one(of(t, 1.0, 5.2)), Tolerance{Absolute: 0.1}, Different, "element 1 is 5 and 5.2"},
		"integers": {one(of(t, int64(-5))), one(of(t, int64(-6))), Tolerance{Absolute: 1}, Close, ""},
		"large integers": {
			one(of(t, int64(1<<60))), one(of(t, int64(1<<60+1))),
			Tolerance{},
			Different,
			"element 0 is 1152921504606846976 and 1152921504606846977",
		},
		"large and near":      {one(of(t, uint64(1<<60+1))), one(of(t, uint64(1<<60))), Tolerance{Absolute: 1}, Close, ""},
		"far apart":           {one(of(t, int64(math.MinInt64))), one(of(t, int64(math.MaxInt64))), Tolerance{Absolute: 1e18}, Different, "0"},
		"unsigned":            {one(of(t, uint8(255))), one(of(t, uint8(0))), Tolerance{Absolute: 1}, Different, "element 0 is 255 and 0"},
		"a number and none":   {one(of(t, nan)), one(of(t, float32(1))), Tolerance{Absolute: 9}, Different, "NaN"},
		"infinite":            {one(of(t, inf)), one(of(t, float32(1))), Tolerance{Absolute: 9, Relative: 9}, Different, "Inf"},
		"strings":             {one(of(t, "a")), one(of(t, "b")), Tolerance{Absolute: 9}, Different, "are no numbers"},
		"truth":               {one(of(t, true)), one(of(t, false)), Tolerance{Absolute: 9}, Different, "are no numbers"},
		"datatype":            {one(of(t, int8(1))), one(of(t, uint8(1))), Tolerance{}, Different, "datatype INT8 and UINT8"},
		"shape":               {one(of(t, int8(1), 2)), one(shaped), Tolerance{}, Different, "shape [2] and [1,2]"},
		"names":               {one(of(t, int8(1))), one(named), Tolerance{}, Different, "there is no output 'x'"},
		"one more":            {one(of(t, int8(1))), []tensor.Tensor{of(t, int8(1)), named}, Tolerance{}, Different, "1 outputs and 2"},
		"in another order":    {[]tensor.Tensor{of(t, int8(2)), named}, []tensor.Tensor{named, of(t, int8(2))}, Tolerance{}, Equal, ""},
		"nothing and nothing": {nil, nil, Tolerance{}, Equal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := Compare(c.a, c.b, c.tol)
			if got != c.want || !strings.Contains(why, c.why) || (c.why == "") != (why == "") {
				t.Errorf("got %s, %q; want %s, %q", got, why, c.want, c.why)
			}
		})
	}
}
