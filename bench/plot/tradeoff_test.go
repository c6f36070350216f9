// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"strings"
	"testing"
)

func TestTradeoffsAreWellFormed(t *testing.T) {
	svg := Tradeoffs("Cost & churn", `the "source"`,
		Tradeoff{"small", "evictions", "USD", []Line{{"ours", []Spot{{"a", 0, 31}, {"b", 6.3, 5.5}}}, {"theirs", nil}}},
		Tradeoff{"nothing", "evictions", "USD", nil})
	wellFormed(t, svg)
	for _, want := range []string{"Cost &amp; churn", "small", "ours", ">7.5<", ">40<", "a: 0, 31", "b: 6.3, 5.5"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the drawing", want)
		}
	}
	for _, not := range []string{"NaN", "Inf", "theirs"} {
		if strings.Contains(svg, not) {
			t.Errorf("%s is drawn:\n%s", not, svg)
		}
	}
}
