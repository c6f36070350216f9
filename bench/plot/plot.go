// SPDX-License-Identifier: Apache-2.0

// Package plot draws how time grows with size, as an SVG with logarithmic axes: a
// panel for each kind of size, side by side, with one scale of time. Each series
// gets a dashed line of slope 1 through its first point: one that stays at or below
// its line grows no worse than linearly. The colours show on light and dark pages.
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

// Panel is one pair of axes.
type Panel struct {
	Sizes  string // what is counted along the axis
	Series []Series
}

const (
	width, height            = 460, 420 // of a panel
	left, right, top, bottom = 62, 14, 84, 46
	ink                      = "#808080" // legible on white and on black
)

var colours = [...]string{"#1f8fff", "#e8590c", "#2f9e44", "#ae3ec9"}

// SVG draws the panels that have anything to show.
func SVG(title string, panels ...Panel) string {
	var drawn []Panel
	for _, p := range panels {
		if p = p.measured(); len(p.Series) > 0 {
			drawn = append(drawn, p)
		}
	}
	y0, y1 := decades(drawn)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n", width*max(1, len(drawn)), height, ink)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", left, title)
	for i, p := range drawn {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", i*width)
		a := axes{y0: y0, y1: y1}
		a.x0, a.x1 = p.reach()
		a.draw(&b, p)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// measured leaves out series without points.
func (p Panel) measured() Panel {
	out := Panel{Sizes: p.Sizes}
	for _, s := range p.Series {
		if len(s.Points) > 0 {
			out.Series = append(out.Series, s)
		}
	}
	return out
}

// decades is the range of all times, as powers of ten.
func decades(panels []Panel) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, p := range panels {
		for _, s := range p.Series {
			for _, q := range s.Points {
				e := math.Log10(q.Seconds)
				lo, hi = min(lo, math.Floor(e)), max(hi, math.Ceil(e))
			}
		}
	}
	return lo, max(hi, lo+1)
}

// reach is the range of sizes as logarithms, with a margin.
func (p Panel) reach() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, s := range p.Series {
		for _, q := range s.Points {
			lo, hi = min(lo, math.Log10(q.Size)), max(hi, math.Log10(q.Size))
		}
	}
	return lo - 0.08, hi + 0.08
}

// axes map sizes and times to pixels of a panel. Bounds are logarithms.
type axes struct{ x0, x1, y0, y1 float64 }

func (a axes) x(size float64) float64 {
	return left + (math.Log10(size)-a.x0)/(a.x1-a.x0)*(width-left-right)
}

func (a axes) y(seconds float64) float64 {
	return height - bottom - (math.Log10(seconds)-a.y0)/(a.y1-a.y0)*(height-top-bottom)
}

func (a axes) draw(b *strings.Builder, p Panel) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-8, p.Sizes)
	a.grid(b)
	for i, s := range p.Series {
		a.series(b, s, colours[i%len(colours)], 44+18*i)
	}
}

// grid rules 1, 2 and 5 of every decade of sizes and each decade of time.
func (a axes) grid(b *strings.Builder) {
	for e := math.Floor(a.x0); e <= a.x1; e++ {
		for _, first := range []float64{1, 2, 5} {
			size := first * math.Pow(10, e)
			if at := math.Log10(size); at < a.x0 || at > a.x1 {
				continue
			}
			line(b, a.x(size), top, a.x(size), height-bottom, ink, `stroke-opacity="0.3"`)
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", a.x(size), height-bottom+16, count(size))
		}
	}
	for e := a.y0; e <= a.y1; e++ {
		y := a.y(math.Pow(10, e))
		line(b, left, y, width-right, y, ink, `stroke-opacity="0.3"`)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y+4, duration(math.Pow(10, e)))
	}
}

func count(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%g", n)
	}
	return fmt.Sprintf("%gk", n/1000)
}

func duration(seconds float64) string {
	switch {
	case seconds < 0.9e-3:
		return fmt.Sprintf("%g µs", math.Round(seconds*1e7)/10)
	case seconds < 0.9:
		return fmt.Sprintf("%g ms", math.Round(seconds*1e4)/10)
	}
	return fmt.Sprintf("%g s", math.Round(seconds*10)/10)
}

// series adds one line with its legend at height y, and its line of slope 1.
func (a axes) series(b *strings.Builder, s Series, colour string, y int) {
	var path strings.Builder
	for i, p := range s.Points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], a.x(p.Size), a.y(p.Seconds))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%g: %s</title></circle>`+"\n", a.x(p.Size), a.y(p.Seconds), colour, p.Size, duration(p.Seconds))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colour)
	a.linear(b, s, colour)
	line(b, left, float64(y-4), left+24, float64(y-4), colour, `stroke-width="2"`)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s (dashed: linear growth)</text>`+"\n", left+30, y, s.Name)
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
