// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Tradeoff is a panel of spots on two linear axes that begin at zero: less is better on both.
type Tradeoff struct {
	Title, X, Y string
	Lines       []Line
}

// Line is the spots of one side.
type Line struct {
	Name  string
	Spots []Spot
}

// Spot is one result; neither value is negative.
type Spot struct {
	Label string
	X, Y  float64
}

// perRow is how many panels stand side by side.
const perRow = 3

// Tradeoffs draws the panels in rows, with a line of small print below.
func Tradeoffs(title, note string, panels ...Tradeoff) string {
	var b strings.Builder
	rows := max(1, (len(panels)+perRow-1)/perRow)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		width*min(perRow, max(2, len(panels))), rows*height+24, ink)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", left, html.EscapeString(title))
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%perRow*width, i/perRow*height)
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="10">%s</text>`+"\n", left, rows*height+14, html.EscapeString(note))
	b.WriteString("</svg>\n")
	return b.String()
}

// legend is where the names of the lines stand.
const legend = 60

func (p Tradeoff) draw(b *strings.Builder) {
	var s scales
	s.x1, s.y1 = p.reach()
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="13">%s</text>`+"\n", left, 42, html.EscapeString(p.Title))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-8, html.EscapeString(p.X))
	fmt.Fprintf(b, `<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-bottom)/2, html.EscapeString(p.Y))
	s.grid(b)
	at := left
	for i, l := range p.Lines {
		if len(l.Spots) == 0 {
			continue
		}
		colour := colours[i%len(colours)]
		line(b, float64(at), legend-4, float64(at+24), legend-4, colour, `stroke-width="2"`)
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", at+30, legend, html.EscapeString(l.Name))
		s.line(b, l, colour)
		at += 100
	}
}

// scales map values to pixels of a panel; both axes end at their value.
type scales struct{ x1, y1 float64 }

func (s scales) x(v float64) float64 { return left + v/s.x1*(width-left-right) }

func (s scales) y(v float64) float64 { return height - bottom - v/s.y1*(height-top-bottom) }

// grid rules every fifth of both axes.
func (s scales) grid(b *strings.Builder) {
	for i := range 6 {
		x, y := s.x1*float64(i)/5, s.y1*float64(i)/5
		line(b, s.x(x), top, s.x(x), height-bottom, ink, `stroke-opacity="0.3"`)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.3g</text>`+"\n", s.x(x), height-bottom+16, x)
		line(b, left, s.y(y), width-right, s.y(y), ink, `stroke-opacity="0.3"`)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%.3g</text>`+"\n", left-8, s.y(y)+4, y)
	}
}

// line draws the spots with their labels, and connects them.
func (s scales) line(b *strings.Builder, l Line, colour string) {
	var path strings.Builder
	for i, spot := range l.Spots {
		x, y := s.x(spot.X), s.y(spot.Y)
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x, y)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.3g, %.3g</title></circle>`+"\n", x, y, colour, html.EscapeString(spot.Label), spot.X, spot.Y)
		anchor, at, beside := "start", x+7, y-5
		if x > width/2 {
			anchor, at, beside = "end", x-7, y+14 // below the line that comes from the left
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="10" text-anchor="%s" fill="%s">%s</text>`+"\n", at, beside, anchor, colour, html.EscapeString(spot.Label))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path.String(), colour)
}

// reach is the end of both axes, a round number well above all spots.
func (p Tradeoff) reach() (x, y float64) {
	for _, l := range p.Lines {
		for _, s := range l.Spots {
			x, y = max(x, s.X), max(y, s.Y)
		}
	}
	return round(1.1 * x), round(1.1 * y)
}

// round is the next number above v that five steps divide well.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10} {
		if v <= n*step {
			return n * step
		}
	}
	return 10 * step
}
