// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVGIsWellFormed(t *testing.T) {
	svg := SVG("Time",
		Panel{"pods", []Series{
			{"ours", []Point{{1000, 0.002}, {2000, 0.003}, {20000, 0.03}}},
			{"theirs", []Point{{1000, 1}, {20000, 75}}},
		}},
		Panel{"nodes", []Series{{"ours", []Point{{500, 0.0002}}}, {"theirs", nil}}},
		Panel{"nothing", []Series{{"theirs", nil}}})
	wellFormed(t, svg)
	for _, want := range []string{"1 ms", "100 µs", "100 ms", "100 s", ">20k<", ">500<", "stroke-dasharray", "nodes"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the drawing", want)
		}
	}
	for _, not := range []string{"NaN", "Inf", "nothing"} {
		if strings.Contains(svg, not) {
			t.Errorf("%s is drawn:\n%s", not, svg)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	svg := SVG("Time", Panel{Sizes: "pods"})
	wellFormed(t, svg)
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a coordinate is not a number:\n%s", svg)
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
	}
}
