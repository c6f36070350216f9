// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Rule PRICE-5.
func TestSpotLimits(t *testing.T) {
	p := Price{OnDemand: 200_000_000, Spot: 80_000_000} // nano-dollars
	for text, want := range map[string]struct {
		most     int64
		forbids  string
		readable bool
	}{
		"0.09": {90_000_000, "", true},
		"0.05": {50_000_000, "spot price 0.0800/h is above the class's limit of 0.0500/h", true},
		"40%":  {80_000_000, "", true},
		"39%":  {78_000_000, "above the class's limit", true},
		"100%": {200_000_000, "", true},
		"101%": {0, "cannot be read", false},
		"-1":   {0, "cannot be read", false},
		"":     {0, "cannot be read", false},
		"NaN":  {0, "cannot be read", false},
		"1e99": {0, "cannot be read", false},
	} {
		class := &v1beta1.AKSNodeClass{}
		class.Annotations = map[string]string{AnnotationSpotMaxPrice: text}
		limit, err := SpotLimitOf(class)
		got := limit.WhyForbidden(p)
		if (err == nil) != want.readable || int64(limit.Max(p.OnDemand)) != want.most || (got == "") != (want.forbids == "") || !strings.Contains(got, want.forbids) {
			t.Errorf("%q: most %d, forbids %q, %v; want %+v", text, limit.Max(p.OnDemand), got, err, want)
		}
	}
}
