// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes garbage collection rarer: decisions allocate much and keep little
// in memory, so that at Go's usual pace a third of the time would be collection. Beyond a
// gibibyte it goes back to that pace.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
