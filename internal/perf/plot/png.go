package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// density is how many pixels a unit of SVG is.
const density = 2

// palette are the colors of inks, those of Style in light.
var palette = [...]color.NRGBA{
	{0x1f, 0x23, 0x28, 0xff},
	{0x59, 0x63, 0x6e, 0xff},
	{0xd9, 0xde, 0xe3, 0xff},
	{0x1f, 0x6f, 0xeb, 0xff},
	{0xbc, 0x4c, 0x00, 0xff},
	{0x1a, 0x7f, 0x37, 0xff},
	{0x82, 0x50, 0xdf, 0xff},
	{0x9a, 0x67, 0x00, 0xff},
	{0xbf, 0x39, 0x89, 0xff},
}

// raster draws as pixels.
type raster struct {
	image *image.NRGBA
	font  *opentype.Font
	faces map[float64]font.Face
}

// PNG writes charts one below the other as one picture.
func PNG(out io.Writer, charts []Chart) error {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return err
	}
	r := &raster{
		image: image.NewNRGBA(image.Rect(0, 0, Width*density, Height*density*max(1, len(charts)))), font: f, faces: map[float64]font.Face{},
	}
	draw.Draw(r.image, r.image.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range charts {
		place(r, &charts[i], 0, float64(i*Height))
	}
	return png.Encode(out, r.image)
}

// fill fills a shape; its corners are in pixels.
func (r *raster) fill(c ink, corners []Point) {
	low, high := corners[0], corners[0]
	for _, p := range corners {
		low, high = Point{min(low.X, p.X), min(low.Y, p.Y)}, Point{max(high.X, p.X), max(high.Y, p.Y)}
	}
	box := image.Rect(int(math.Floor(low.X)), int(math.Floor(low.Y)), int(math.Ceil(high.X))+1, int(math.Ceil(high.Y))+1)
	box = box.Intersect(r.image.Bounds())
	if box.Empty() {
		return
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	for i, p := range corners {
		x, y := float32(p.X-float64(box.Min.X)), float32(p.Y-float64(box.Min.Y))
		if i == 0 {
			z.MoveTo(x, y)
		} else {
			z.LineTo(x, y)
		}
	}
	z.ClosePath()
	z.Draw(r.image, box, image.NewUniform(palette[c]), image.Point{})
}

func (r *raster) line(c ink, width float64, points []Point) {
	half := width * density / 2
	for i := 1; i < len(points); i++ {
		a, b := scaled(points[i-1]), scaled(points[i])
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		if length == 0 {
			continue
		}
		n := Point{-(b.Y - a.Y) / length * half, (b.X - a.X) / length * half}
		r.fill(c, []Point{{a.X + n.X, a.Y + n.Y}, {b.X + n.X, b.Y + n.Y}, {b.X - n.X, b.Y - n.Y}, {a.X - n.X, a.Y - n.Y}})
		if i > 1 && width > 1 {
			r.disk(c, a, half) // a joint without a notch
		}
	}
}

func scaled(p Point) Point { return Point{p.X * density, p.Y * density} }

func (r *raster) disk(c ink, at Point, radius float64) {
	const corners = 24
	shape := make([]Point, corners)
	for i := range shape {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		shape[i] = Point{at.X + radius*cos, at.Y + radius*sin}
	}
	r.fill(c, shape)
}

func (r *raster) dot(c ink, x, y, radius float64, _ string) {
	r.disk(c, scaled(Point{x, y}), radius*density)
}

func (r *raster) rect(c ink, x, y, w, h float64, _ string) {
	a, b := scaled(Point{x, y}), scaled(Point{x + w, y + h})
	r.fill(c, []Point{a, {b.X, a.Y}, b, {a.X, b.Y}})
}

// face is the font in a size; nil where it has none such.
func (r *raster) face(size float64) font.Face {
	if f, ok := r.faces[size]; ok {
		return f
	}
	f, err := opentype.NewFace(r.font, &opentype.FaceOptions{Size: size * density, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil
	}
	r.faces[size] = f
	return f
}

func (r *raster) text(c ink, x, y, size float64, a anchor, s string) {
	r.write(r.image, c, scaled(Point{x, y}), size, a, s)
}

func (r *raster) write(on draw.Image, c ink, at Point, size float64, a anchor, s string) {
	f := r.face(size)
	if f == nil {
		return
	}
	d := font.Drawer{Dst: on, Src: image.NewUniform(palette[c]), Face: f}
	switch width := float64(d.MeasureString(s)) / 64; a {
	case middle:
		at.X -= width / 2
	case right:
		at.X -= width
	default:
	}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(at.X * 64), Y: fixed.Int26_6(at.Y * 64)}
	d.DrawString(s)
}

// turned writes beside the picture and turns that.
func (r *raster) turned(c ink, x, y, size float64, s string) {
	const most = Height * density
	high := int(2 * size * density)
	beside := image.NewNRGBA(image.Rect(0, 0, most, high))
	r.write(beside, c, Point{most / 2, float64(high) * 0.7}, size, middle, s)
	at := scaled(Point{x, y})
	corner := image.Pt(int(at.X)-high*7/10, int(at.Y)-most/2)
	upright := image.NewNRGBA(image.Rect(0, 0, high, most))
	for i := range most {
		for k := range high {
			upright.SetNRGBA(k, most-1-i, beside.NRGBAAt(i, k))
		}
	}
	draw.Draw(r.image, upright.Bounds().Add(corner), upright, image.Point{}, draw.Over)
}
