// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing is brought up for a karve that is not named.
func TestKarveIsRequired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "Options.Karve is required") {
		t.Errorf("without a karve: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder of state: %v; want none", err)
	}
}
