package plot

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Style is the style sheet of charts as SVG, in light and dark. It is for documents
// that hold charts by Inline; those of SVG have it.
const Style = `.chart{--text:#1f2328;--faint:#59636e;--grid:#d9dee3;--s0:#1f6feb;--s1:#bc4c00;--s2:#1a7f37;--s3:#8250df;--s4:#9a6700;--s5:#bf3989;
font-family:system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
@media(prefers-color-scheme:dark){.chart{--text:#e6edf3;--faint:#9aa5b1;--grid:#30363d;--s0:#58a6ff;--s1:#f0883e;--s2:#3fb950;--s3:#bc8cff;
--s4:#d4a72c;--s5:#f778ba}}
` + inks

const inks = `.chart polyline{fill:none;stroke-linejoin:round}
.chart .t{fill:var(--text)}.chart .f{fill:var(--faint)}
.chart polyline.t{stroke:var(--text);fill:none}.chart polyline.f{stroke:var(--faint);fill:none}.chart polyline.g{stroke:var(--grid)}
.chart .s0{fill:var(--s0)}.chart .s1{fill:var(--s1)}.chart .s2{fill:var(--s2)}.chart .s3{fill:var(--s3)}.chart .s4{fill:var(--s4)}.chart .s5{fill:var(--s5)}
.chart polyline.s0{stroke:var(--s0);fill:none}.chart polyline.s1{stroke:var(--s1);fill:none}.chart polyline.s2{stroke:var(--s2);fill:none}
.chart polyline.s3{stroke:var(--s3);fill:none}.chart polyline.s4{stroke:var(--s4);fill:none}.chart polyline.s5{stroke:var(--s5);fill:none}
`

// background is that of a picture that stands alone.
const background = `.chart .back{fill:#fff}@media(prefers-color-scheme:dark){.chart .back{fill:#0d1117}}
`

// class is how an ink is called in the style sheet.
func (c ink) class() string {
	if c >= firstSeries {
		return fmt.Sprintf("s%d", c-firstSeries)
	}
	return [...]string{"t", "f", "g"}[c]
}

// markup draws as SVG. Every text is escaped.
type markup struct{ b strings.Builder }

func (v *markup) line(c ink, width float64, points []Point) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(&v.b, `<polyline class="%s" stroke-width="%g" points="`, c.class(), width)
	for i, p := range points {
		if i > 0 {
			v.b.WriteByte(' ')
		}
		fmt.Fprintf(&v.b, "%.1f,%.1f", p.X, p.Y)
	}
	v.b.WriteString(`"/>` + "\n")
}

func (v *markup) rect(c ink, x, y, w, h float64, tip string) {
	fmt.Fprintf(&v.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">%s</rect>`+"\n", c.class(), x, y, w, h, title(tip))
}

func (v *markup) dot(c ink, x, y, r float64, tip string) {
	fmt.Fprintf(&v.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f">%s</circle>`+"\n", c.class(), x, y, r, title(tip))
}

func title(tip string) string {
	if tip == "" {
		return ""
	}
	return "<title>" + html.EscapeString(tip) + "</title>"
}

func (v *markup) text(c ink, x, y, size float64, a anchor, s string) {
	fmt.Fprintf(&v.b, `<text class="%s" x="%.1f" y="%.1f" font-size="%g" text-anchor="%s">%s</text>`+"\n", c.class(), x, y, size,
		[...]string{"start", "middle", "end"}[a], html.EscapeString(s))
}

func (v *markup) turned(c ink, x, y, size float64, s string) {
	fmt.Fprintf(&v.b, `<text class="%s" transform="translate(%.1f %.1f) rotate(-90)" font-size="%g" text-anchor="middle">%s</text>`+"\n",
		c.class(), x, y, size, html.EscapeString(s))
}

// Inline is a chart as an element of an HTML document that has Style.
func Inline(c *Chart) string {
	v := &markup{}
	fmt.Fprintf(&v.b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", Width, Height, html.EscapeString(c.Title))
	place(v, c, 0, 0)
	v.b.WriteString("</svg>\n")
	return v.b.String()
}

// SVG writes charts one below the other as one picture.
func SVG(out io.Writer, charts []Chart) error {
	v := &markup{}
	height := Height * max(1, len(charts))
	fmt.Fprintf(&v.b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n<style>\n%s%s</style>\n",
		Width, height, Width, height, Style, background)
	fmt.Fprintf(&v.b, `<rect class="back" width="%d" height="%d"/>`+"\n", Width, height)
	for i := range charts {
		place(v, &charts[i], 0, float64(i*Height))
	}
	v.b.WriteString("</svg>\n")
	_, err := io.WriteString(out, v.b.String())
	return err
}
