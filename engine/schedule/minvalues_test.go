// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// Rule MIN-VALUES-1: a NodeClaim lists 600 instance types at most, and those that its minValues
// depends on are among them however expensive they are.
func TestMinValuesAmongManyTypes(t *testing.T) {
	var b strings.Builder
	b.WriteString("pool all min-values:family=3 min-values:type=50\npod web cpu=1\n")
	for i := range 700 {
		fmt.Fprintf(&b, "type A%03d cpu=4 mem=16Gi price=0.2%03d label:family=A\n", i, i)
	}
	b.WriteString("type B cpu=4 mem=16Gi price=5 label:family=B\ntype C cpu=4 mem=16Gi price=6 label:family=C\n")
	script, err := enginetest.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	plan := schedule.Solve(script.Snapshot())
	if err := enginetest.Check(script, plan); err != nil {
		t.Error(err)
	}
	if len(plan.Launches) != 1 {
		t.Fatalf("%d launches", len(plan.Launches))
	}
	choices := plan.Launches[0].Offerings
	if n := len(choices); n != 600 || choices[n-2].Type != "B" || choices[n-1].Type != "C" {
		t.Errorf("%d choices, the last are %v", n, choices[max(0, n-2):])
	}
}
