// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"testing"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/kube"
)

// The budget of converting one pod of the diverse mix, when pods like it were
// converted before: a microsecond.
func BenchmarkConvert(b *testing.B) {
	pods := scenario.Diverse(1000).Pending
	var convert kube.Converter
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		convert.Pod(pods[i%len(pods)], scenario.Now())
	}
}
