// Package plot draws how time grows with size, as an SVG on logarithmic axes. Each
// series gets a dashed line of linear growth through its first point: a series
// that stays at or below its line grows no worse than linearly. The colours show
// on light and dark pages alike.
package plot

import (
	"fmt"
	"math"
	"strings"
)

// Point is one measurement; both values are positive.
type Point struct{ Size, Seconds float64 }

// Series is what belongs on one line, by rising size.
type Series struct {
	Name   string
	Points []Point
}

const (
	width, height            = 720, 440
	left, right, top, bottom = 70, 30, 40, 50
	ink                      = "#808080" // legible on white and on black
)

var colours = [...]string{"#1f8fff", "#e8590c", "#2f9e44", "#ae3ec9"}

// SVG draws the series. There must be one at least, and none without points.
func SVG(title, sizes string, series []Series) string {
	a := axesOf(series)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n", width, height, ink)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15">%s</text>`+"\n", left, title)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-10, sizes)
	a.grid(&b)
	for i, s := range series {
		a.draw(&b, s, colours[i%len(colours)], top+18*(i+1))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axes map decades to pixels. Bounds are powers of ten.
type axes struct{ x0, x1, y0, y1 float64 }

func axesOf(series []Series) axes {
	a := axes{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, s := range series {
		for _, p := range s.Points {
			x, y := math.Log10(p.Size), math.Log10(p.Seconds)
			a.x0, a.x1 = min(a.x0, math.Floor(x)), max(a.x1, math.Ceil(x))
			a.y0, a.y1 = min(a.y0, math.Floor(y)), max(a.y1, math.Ceil(y))
		}
	}
	a.x1, a.y1 = max(a.x1, a.x0+1), max(a.y1, a.y0+1)
	return a
}

func (a axes) x(size float64) float64 {
	return left + (math.Log10(size)-a.x0)/(a.x1-a.x0)*(width-left-right)
}

func (a axes) y(seconds float64) float64 {
	return height - bottom - (math.Log10(seconds)-a.y0)/(a.y1-a.y0)*(height-top-bottom)
}

// grid rules every decade and labels it.
func (a axes) grid(b *strings.Builder) {
	for e := a.x0; e <= a.x1; e++ {
		x := a.x(math.Pow(10, e))
		line(b, x, top, x, height-bottom, ink, `stroke-opacity="0.4"`)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x, height-bottom+18, math.Pow(10, e))
	}
	for e := a.y0; e <= a.y1; e++ {
		y := a.y(math.Pow(10, e))
		line(b, left, y, width-right, y, ink, `stroke-opacity="0.4"`)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y+4, duration(math.Pow(10, e)))
	}
}

func duration(seconds float64) string {
	switch {
	case seconds < 0.9e-3:
		return fmt.Sprintf("%g µs", math.Round(seconds*1e7)/10)
	case seconds < 0.9:
		return fmt.Sprintf("%g ms", math.Round(seconds*1e4)/10)
	}
	return fmt.Sprintf("%g s", seconds)
}

// draw adds one series with its legend at height y, and its line of linear growth.
func (a axes) draw(b *strings.Builder, s Series, colour string, y int) {
	var path strings.Builder
	for i, p := range s.Points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], a.x(p.Size), a.y(p.Seconds))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%g: %s</title></circle>`+"\n", a.x(p.Size), a.y(p.Seconds), colour, p.Size, duration(p.Seconds))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colour)
	a.linear(b, s, colour)
	line(b, left+12, float64(y-4), left+36, float64(y-4), colour, `stroke-width="2"`)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s (dashed: linear growth)</text>`+"\n", left+42, y, s.Name)
}

// linear goes from the first point as far as the series and the drawing reach.
func (a axes) linear(b *strings.Builder, s Series, colour string) {
	first, last := s.Points[0], s.Points[len(s.Points)-1]
	grows := min(last.Size/first.Size, math.Pow(10, a.y1)/first.Seconds)
	line(b, a.x(first.Size), a.y(first.Seconds), a.x(first.Size*grows), a.y(first.Seconds*grows), colour, `stroke-dasharray="5 4"`)
}

func line(b *strings.Builder, x1, y1, x2, y2 float64, colour, more string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" %s/>`+"\n", x1, y1, x2, y2, colour, more)
}
