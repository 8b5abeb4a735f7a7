package jsonscan

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

func parse(text string) (d Decimal, s Scanner, ok bool) {
	s.Reset([]byte(text))
	ok = s.Decimal(&d)
	return d, s, ok
}

// checkFloat compares with strconv, the slow twin.
func checkFloat(t *testing.T, text string) {
	t.Helper()
	d, s, ok := parse(text)
	if !ok || d.end != len(text) {
		t.Fatalf("%s: not read whole: %+v", text, d)
	}
	want64, err := strconv.ParseFloat(text, 64)
	got64, ok := s.Float64(&d)
	if ok != (err == nil) {
		t.Fatalf("%s: float64 ok %v, strconv %v", text, ok, err)
	}
	if !ok {
		return
	}
	if d.integer && want64 == 0 {
		want64 = 0 // the integer -0 is 0
	}
	if math.Float64bits(got64) != math.Float64bits(want64) {
		t.Errorf("%s: float64 %v, want %v", text, got64, want64)
	}
	want32, _ := strconv.ParseFloat(text, 32)
	if d.integer && want32 == 0 {
		want32 = 0
	}
	got32, _ := s.Float32(&d)
	if math.Float32bits(got32) != math.Float32bits(float32(want32)) {
		t.Errorf("%s: float32 %v, want %v", text, got32, float32(want32))
	}
}

func TestFloats(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "0.0", "-0.0", "1", "-1", "0.1", "0.10000000149011612", "3.4028234663852886e38", "3.4028235677973366e38", "1e39", "1e-45",
		"7e-46", "1e-50",
		"16777217", "16777217.0000001", "16777219", "9007199254740993", "9007199254740992.5", "18446744073709551615", "18446744073709551616",
		"1e22", "1e23", "8.5e22",
		"123456789012345678901234567890", "0.000000000000000000000000123", "0.00000000000000000001234567890123456789", "5e-324", "2e-324",
		"1.7976931348623157e308",
		"1.7976931348623159e308", "2.2250738585072014e-308", "1e400", "1e-400", "1e99999999999", "1e-99999999999", "12345678.12345678",
		"1234567812345678", "1.0000000596046448",
		"9999999999999999999", "99999999999999999999", "0.3000000000000000444", "1e19", "12345678901234567e19", "1.1754943508222875e-38",
		"8388608.5", "8388609.5",
	} {
		checkFloat(t, text)
	}
}

func TestFloatsAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var text string
		switch r.IntN(6) {
		case 0:
			text = strconv.FormatFloat(math.Float64frombits(r.Uint64()), 'g', -1, 64)
		case 1:
			text = strconv.FormatFloat(float64(math.Float32frombits(r.Uint32())), 'e', -1, 64)
		case 2:
			text = strconv.FormatFloat(r.Float64()*1000, 'f', r.IntN(20), 64)
		case 3: // the middle between two FP32 values, and beside it
			f := float64(math.Float32frombits(r.Uint32()&0x3fffffff | 0x30000000))
			f = math.Float64frombits(math.Float64bits(f) | 1<<28)
			text = strconv.FormatFloat(f, 'f', -1, 64)
			if r.IntN(2) == 0 {
				text += "0000000001"
			}
		case 4:
			text = strconv.FormatUint(r.Uint64(), 10) + "e" + strconv.Itoa(r.IntN(60)-30)
		case 5:
			text = strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		}
		if f, err := strconv.ParseFloat(text, 64); err != nil && !math.IsInf(f, 0) || f != f || text[0] == '+' || text == "-Inf" {
			continue
		}
		checkFloat(t, text)
	}
}

func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		text   string
		i      int64
		signed bool
		u      uint64
		uns    bool
	}{
		{"0", 0, true, 0, true},
		{"-0", 0, true, 0, true},
		{"-1", -1, true, 0, false},
		{"9223372036854775807", math.MaxInt64, true, math.MaxInt64, true},
		{"9223372036854775808", 0, false, 1 << 63, true},
		{"-9223372036854775808", math.MinInt64, true, 0, false},
		{"-9223372036854775809", 0, false, 0, false},
		{"18446744073709551615", 0, false, math.MaxUint64, true},
		{"18446744073709551616", 0, false, 0, false},
		{"99999999999999999999", 0, false, 0, false},
		{"100000000000000000000000", 0, false, 0, false},
		{"-18446744073709551616", 0, false, 0, false},
		{"1.0", 0, false, 0, false},
		{"1e2", 0, false, 0, false},
		{"NaN", 0, false, 0, false},
		{"-Infinity", 0, false, 0, false},
	} {
		d, s, ok := parse(c.text)
		if !ok {
			t.Fatalf("%s: not read", c.text)
		}
		if i, ok := d.Signed(); i != c.i || ok != c.signed {
			t.Errorf("%s: signed %d, %v", c.text, i, ok)
		}
		if u, ok := d.Unsigned(s.B); ok != c.uns || ok && u != c.u {
			t.Errorf("%s: unsigned %d, %v", c.text, u, ok)
		}
	}
}

func TestDoublesAreWrittenAsThePeerDoes(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"},
		{math.Copysign(0, -1), "-0.0"},
		{1, "1.0"},
		{-3, "-3.0"},
		{1.5, "1.5"},
		{float64(float32(0.1)), "0.10000000149011612"},
		{float64(float32(1e-7)), "1.0000000116860974e-7"},
		{1e-7, "1e-7"},
		{1e-6, "0.000001"},
		{1e-5, "0.00001"},
		{1e15, "1000000000000000.0"},
		{1e16, "10000000000000000.0"},
		{1e21, "1e21"},
		{1e22, "1e22"},
		{123456789012345680000, "123456789012345680000.0"},
		{math.MaxFloat64, "1.7976931348623157e308"},
		{5e-324, "5e-324"},
		{float64(float32(1e-45)), "1.401298464324817e-45"},
		{float64(float32(3.4e38)), "3.3999999521443642e38"},
		{-1e-100, "-1e-100"},
		{math.NaN(), "NaN"},
		{math.Inf(1), "Infinity"},
		{math.Inf(-1), "-Infinity"},
		{0.50000762939453125, "0.5000076293945312"},
		{999999999999999, "999999999999999.0"},
		{0.5, "0.5"},
	} {
		if got := string(AppendDouble(nil, c.f)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.f, got, c.want)
		}
	}
}

func TestDoublesReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		f := math.Float64frombits(r.Uint64())
		if f != f || math.IsInf(f, 0) {
			continue
		}
		for _, f := range []float64{f, float64(float32(f)), float64(int64(f)), f * 1e-300} {
			if f != f || math.IsInf(f, 0) {
				continue
			}
			text := AppendDouble(nil, f)
			var back float64
			if err := json.Unmarshal(text, &back); err != nil || math.Float64bits(back) != math.Float64bits(f) {
				t.Fatalf("%v written as %s reads back as %v, %v", f, text, back, err)
			}
		}
	}
}

// TestFloatsAreWrittenAsDoubles holds the short way against the general one.
func TestFloatsAreWrittenAsDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	check := func(f float32) {
		t.Helper()
		got, want := string(AppendFloat(nil, f)), string(AppendDouble(nil, float64(f)))
		if got == want {
			return
		}
		// Half-way between two shortest texts both are right; the peer rounds up.
		back, err := strconv.ParseFloat(got, 64)
		if err != nil || back != float64(f) || len(got) != len(want) {
			t.Fatalf("%x: got %s, want %s", f, got, want)
		}
	}
	for _, f := range []float32{
		0, 0.5, 0.25, 0.1, 1.0 / 3, 1e-6, 9.9e-7, 2e-6, 123456.789, 1e10, 16777216.5, 0.001, 1.5, 1<<24 + 2, 8388607.5,
		4194303.25, 99999.99, 0.3, 0.7,
	} {
		for range 1000 {
			check(f)
			check(-f)
			f = math.Nextafter32(f, 10)
		}
	}
	for range 100_000 {
		check(math.Float32frombits(r.Uint32()))
		check(float32(r.Float64()*20 - 10))
		check(float32(r.NormFloat64() * 0.02))
		check(float32(r.IntN(100000)) / 100)
	}
}
