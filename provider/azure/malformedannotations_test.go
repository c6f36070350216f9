// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure"
)

// Rule PRICE-5.
func TestMalformedSpotLimit(t *testing.T) {
	for text, want := range map[string]int{"0.09": 0, "40%": 0, "100%": 0, "101%": 1, "-1": 1, "": 1, "NaN": 1, "1e99": 1} {
		class := &v1beta1.AKSNodeClass{}
		class.Annotations = map[string]string{azure.AnnotationSpotMaxPrice: text}
		if fields := azure.MalformedAnnotations(class); len(fields) != want {
			t.Errorf("%q: the fields without effect are %q, want %d", text, fields, want)
		}
	}
}
