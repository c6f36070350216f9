package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVGIsWellFormed(t *testing.T) {
	svg := SVG("Time", "pods", []Series{
		{Name: "a", Points: []Point{{1000, 0.002}, {10000, 0.03}}},
		{Name: "b", Points: []Point{{500, 0.0001}}},
	})
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
	}
	for _, want := range []string{"1 ms", "100 µs", "100 ms", ">1000<", "stroke-dasharray"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the drawing", want)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a coordinate is not a number:\n%s", svg)
	}
}
