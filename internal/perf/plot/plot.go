// Package plot owns pictures of what was measured: charts of lines and of bars, drawn
// as SVG and as PNG by the same code. Open plot.go first, then draw.go.
package plot

// Chart is one picture: lines, or bars if Bars is set.
type Chart struct {
	Title    string
	X, Y     Axis
	Series   []Series
	Bars     []Bar
	Rules    []Rule
	NoLegend bool
}

// Axis is one of a chart. A logarithmic one has no values of 0 and below.
type Axis struct {
	Label string
	Log   bool
}

// Series is a line. With Dots each point is shown, and says its values.
type Series struct {
	Name   string
	Points []Point
	Dots   bool
}

// Point is a place in a chart, in the units of its axes.
type Point struct{ X, Y float64 }

// Bar stands from Low to High and is Y high.
type Bar struct{ Low, High, Y float64 }

// Rule is a line from the bottom to the top, with a text beside it.
type Rule struct {
	X    float64
	Text string
}

// The size of a chart, in the units of SVG.
const (
	Width  = 720
	Height = 300
)

// mostPoints bounds the points of a line that are drawn, mostBars the bars.
const (
	mostPoints = 600
	mostBars   = 400
)

// thin returns so few points that a picture stays small: means of neighbours.
func thin(points []Point) []Point {
	if len(points) <= mostPoints {
		return points
	}
	out := make([]Point, 0, mostPoints)
	for i := range mostPoints {
		part := points[i*len(points)/mostPoints : (i+1)*len(points)/mostPoints]
		var sum Point
		for _, p := range part {
			sum.X += p.X
			sum.Y += p.Y
		}
		n := float64(len(part))
		out = append(out, Point{sum.X / n, sum.Y / n})
	}
	return out
}
