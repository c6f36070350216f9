// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often: decisions leave much of it and little else
// in memory, so that at Go's usual pace a third of the work would be collecting.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
