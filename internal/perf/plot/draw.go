package plot

import "math"

// ink is what something is drawn with.
type ink int

const (
	text ink = iota // of titles and legends
	faint
	grid
	firstSeries // this and those that follow
)

// colors is how many series have a color of their own.
const colors = 6

func series(i int) ink { return firstSeries + ink(i%colors) }

// anchor says which end of a text stands at its place.
type anchor int

const (
	left anchor = iota
	middle
	right
)

// canvas is what charts are drawn on.
type canvas interface {
	line(c ink, width float64, points []Point)
	// rect and dot say tip where the pointer is on them, if the canvas can.
	rect(c ink, x, y, w, h float64, tip string)
	dot(c ink, x, y, r float64, tip string)
	text(c ink, x, y, size float64, a anchor, s string)
	// turned is a text that reads from below to above, its middle at x, y.
	turned(c ink, x, y, size float64, s string)
}

// Where the axes lie within a chart.
const (
	leftEdge, rightEdge  = 74, Width - 16
	topEdge, bottomEdge  = 52, Height - 46
	titleSize, labelSize = 15, 11
)

// frame is a chart with its scales.
type frame struct {
	canvas
	x, y   scale
	dx, dy float64 // of the whole chart
}

func (f *frame) px(v float64) float64 { return f.dx + leftEdge + f.x.at(v)*(rightEdge-leftEdge) }
func (f *frame) py(v float64) float64 { return f.dy + bottomEdge - f.y.at(v)*(bottomEdge-topEdge) }

// place draws a chart with its corner at dx, dy.
func place(on canvas, c *Chart, dx, dy float64) {
	f := &frame{canvas: on, dx: dx, dy: dy}
	f.x, f.y = scales(c)
	f.text(text, dx+leftEdge, dy+20, titleSize, left, c.Title)
	f.axes(c)
	for _, r := range c.Rules {
		x := f.px(r.X)
		f.line(faint, 1, []Point{{x, dy + topEdge}, {x, dy + bottomEdge}})
		f.text(faint, x+3, dy+topEdge+9, labelSize-1, left, r.Text)
	}
	f.bars(c)
	f.lines(c)
	if !c.NoLegend {
		f.legend(c)
	}
}

// scales are those that all points fit into. A scale that counts begins at 0.
func scales(c *Chart) (x, y scale) {
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	see := func(x, y float64) {
		if finite(x) && finite(y) {
			lowX, highX, lowY, highY = min(lowX, x), max(highX, x), min(lowY, y), max(highY, y)
		}
	}
	for _, s := range c.Series {
		for _, p := range s.Points {
			see(p.X, p.Y)
		}
	}
	for _, b := range c.Bars {
		see(b.Low, b.Y)
		see(b.High, b.Y)
	}
	if !c.Y.Log {
		lowY = min(0, lowY)
	}
	x, y = newScale(lowX, highX, c.X.Log), newScale(lowY, highY, c.Y.Log)
	if !c.X.Log && highX > lowX {
		x.low, x.high = lowX, highX
	}
	return x, y
}

func (f *frame) axes(c *Chart) {
	dx, dy := f.dx, f.dy
	for _, v := range f.y.ticks {
		y := f.py(v)
		f.line(grid, 1, []Point{{dx + leftEdge, y}, {dx + rightEdge, y}})
		f.text(faint, dx+leftEdge-8, y+4, labelSize, right, say(v))
	}
	last := math.Inf(-1)
	for _, v := range f.x.ticks {
		if v < f.x.low-1e-12 || v > f.x.high*(1+1e-12) {
			continue
		}
		x := f.px(v)
		f.line(grid, 1, []Point{{x, dy + bottomEdge}, {x, dy + bottomEdge + 4}})
		if x-last >= 34 {
			f.text(faint, x, dy+bottomEdge+17, labelSize, middle, say(v))
			last = x
		}
	}
	f.line(faint, 1, []Point{{dx + leftEdge, dy + bottomEdge}, {dx + rightEdge, dy + bottomEdge}})
	f.text(faint, dx+(leftEdge+rightEdge)/2, dy+Height-10, labelSize+1, middle, c.X.Label)
	f.turned(faint, dx+16, dy+(topEdge+bottomEdge)/2, labelSize+1, c.Y.Label)
}

func (f *frame) bars(c *Chart) {
	bars := c.Bars[:min(len(c.Bars), mostBars)]
	for _, b := range bars {
		if !finite(b.Low) || !finite(b.High) || !finite(b.Y) {
			continue
		}
		x, y := f.px(b.Low), f.py(b.Y)
		tip := say(b.Low) + " to " + say(b.High) + ": " + say(b.Y)
		f.rect(firstSeries, x, y, max(1, f.px(b.High)-x-0.5), f.dy+bottomEdge-y, tip)
	}
}

func (f *frame) lines(c *Chart) {
	for i, s := range c.Series {
		var points []Point
		var values []Point
		for _, p := range thin(s.Points) {
			if finite(p.X) && finite(p.Y) {
				points, values = append(points, Point{f.px(p.X), f.py(p.Y)}), append(values, p)
			}
		}
		f.line(series(i), 2, points)
		if !s.Dots && len(points) > 1 {
			continue
		}
		for k, p := range points {
			f.dot(series(i), p.X, p.Y, 3.5, s.Name+" at "+say(values[k].X)+": "+say(values[k].Y))
		}
	}
}

func (f *frame) legend(c *Chart) {
	x, y := f.dx+leftEdge, f.dy+36.0
	for i, s := range c.Series {
		f.rect(series(i), x, y-4, 14, 3, "")
		f.text(text, x+19, y, labelSize, left, s.Name)
		x += 19 + float64(len([]rune(s.Name)))*6.6 + 16
	}
}
