package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nesoserve/neso/internal/nesotest"
)

var update = flag.Bool("update", false, "write the golden pictures anew")

func TestMain(m *testing.M) { nesotest.Main(m) }

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
		want      []float64
	}{
		{0, 100, false, []float64{0, 20, 40, 60, 80, 100}},
		{0, 0.7, false, []float64{0, 0.2, 0.4, 0.6, 0.8}},
		{1, 32, false, []float64{0, 10, 20, 30, 40}},
		{0, 0, false, []float64{-0.6, -0.4, -0.2, 0, 0.2, 0.4, 0.6}},
		{math.NaN(), math.Inf(1), false, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{3, 80, true, []float64{5, 10, 20, 50}},
		{1, 1e6, true, []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}},
		{-5, 5, true, []float64{1, 2, 5, 10}},
	} {
		got := newScale(c.low, c.high, c.log).ticks
		if diff := cmp.Diff(got, c.want, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%v to %v: %s", c.low, c.high, diff)
		}
	}
	for v, want := range map[float64]string{0: "0", 1.5: "1.5", 999: "999", 12000: "12k", 3.2e6: "3.2M", 0.00001: "1e-05", -20000: "-20k"} {
		if got := say(v); got != want {
			t.Errorf("%v is said as %q, want %q", v, got, want)
		}
	}
}

// FuzzScale: whatever the values, an axis has few ticks, in rising order, and places
// everything within itself.
func FuzzScale(f *testing.F) {
	f.Add(0.0, 1.0, false)
	f.Add(-1e300, 1e300, false)
	f.Add(1e-300, 1e300, true)
	f.Add(5.0, 5.0, true)
	f.Fuzz(func(t *testing.T, low, high float64, log bool) {
		s := newScale(low, high, log)
		if len(s.ticks) > 64 {
			t.Fatalf("%d ticks", len(s.ticks))
		}
		for i := 1; i < len(s.ticks); i++ {
			if s.ticks[i] < s.ticks[i-1] {
				t.Fatalf("ticks %v", s.ticks)
			}
		}
		for _, v := range []float64{low, high, 0, 1e308, -1e308} {
			if at := s.at(v); !math.IsNaN(v) && (math.IsNaN(at) || at < 0 || at > 1) {
				t.Fatalf("%v stands at %v of %+v", v, at, s)
			}
		}
	})
}

const hostile = `</svg><script>alert("1")</script>'&`

func charts() []Chart {
	wave := make([]Point, 5000)
	for i := range wave {
		wave[i] = Point{float64(i) / 100, 1000 + 300*math.Sin(float64(i)/300)}
	}
	return []Chart{
		{
			Title: "Throughput over concurrency", X: Axis{Label: "concurrency"}, Y: Axis{Label: "inferences a second"}, NoLegend: true,
			Series: []Series{{Name: "rate", Dots: true, Points: []Point{{1, 4000}, {2, 7600}, {4, 14_000}, {8, 22_000}, {math.NaN(), 1}}}},
		},
		{
			Title: "Latency", X: Axis{Label: "s"}, Y: Axis{Label: "ms"}, Rules: []Rule{{20, hostile}},
			Series: []Series{{Name: hostile, Points: wave}, {Name: "alone", Points: []Point{{3, 500}}}},
		},
		{
			Title: "Histogram", X: Axis{Label: "ms", Log: true}, Y: Axis{Label: "requests"},
			Bars: []Bar{{0.1, 0.2, 5}, {0.2, 0.4, 90}, {0.4, 0.8, 40}, {12, 20, 1}},
		},
		{Title: "Nothing", X: Axis{Label: "x"}, Y: Axis{Label: "y"}},
	}
}

// elements reads a document and returns how often it has each element.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = true
	all := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			all[e.Name.Local]++
		}
	}
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := SVG(&b, charts()[:1]); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "line.svg")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(want)); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := SVG(&b, charts()); err != nil {
		t.Fatal(err)
	}
	found := elements(t, b.String())
	if found["script"] > 0 || found["svg"] != 1 || found["circle"] < 5 {
		t.Errorf("elements %v", found)
	}
	if strings.Contains(b.String(), "NaN") || b.Len() > 200_000 {
		t.Errorf("a picture of %d bytes with NaN: %t", b.Len(), strings.Contains(b.String(), "NaN"))
	}
	for i := range charts() {
		if found := elements(t, Inline(&charts()[i])); found["svg"] != 1 || found["script"] > 0 {
			t.Errorf("elements %v", found)
		}
	}
}

// TestPNG: a picture has the size of its charts, is white at its edge, and has ink of
// each series.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := PNG(&b, charts()); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PLOT_TEST_DIR"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "plot.png"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Bounds().Size(); s.X != Width*density || s.Y != 4*Height*density {
		t.Errorf("size %v", s)
	}
	seen := map[[3]uint32]int{}
	for y := range p.Bounds().Dy() {
		for x := range p.Bounds().Dx() {
			r, g, b, _ := p.At(x, y).RGBA()
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	for i, c := range palette[:firstSeries+2] {
		if seen[[3]uint32{uint32(c.R), uint32(c.G), uint32(c.B)}] < 10 {
			t.Errorf("ink %d is not seen", i)
		}
	}
	if seen[[3]uint32{255, 255, 255}] < p.Bounds().Dx()*p.Bounds().Dy()/2 {
		t.Error("the picture is not white where nothing is")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestFull(t *testing.T) {
	if err := SVG(full{}, charts()); err == nil {
		t.Error("SVG")
	}
	if err := PNG(full{}, charts()); err == nil {
		t.Error("PNG")
	}
}
