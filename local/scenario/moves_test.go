// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMovesComeFromTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "karve.log")
	log := `{"message":"tainted node","node":"aks-1"}
{"message":"disrupting node(s)","move":"m1","reason":"underutilized","nodes":["aks-1 Standard_D8as_v5/eastus-1/on-demand","aks-2 Standard_D8as_v5/eastus-2/on-demand"],"pod-count":9,"price-before":0.688,"price-after":0.172,"replacements":["general-x Standard_D4as_v5/eastus-1/on-demand or 11 others"]}
panic: not JSON
{"message":"disrupting node(s)","move":"m2","reason":"empty","nodes":["aks-3 Standard_D4as_v5/eastus-1/spot"],"price-before":0.03,"price-after":0}
{"message":"disrupting nod`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	moves, err := readMoves(path)
	if err != nil || len(moves) != 2 {
		t.Fatalf("%d moves, %v", len(moves), err)
	}
	table := moveTable(moves)
	for _, want := range []string{"2 × Standard_D8as_v5", "Standard_D4as_v5", "nothing", "0.5160", "0.0300", "underutilized"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in:\n%s", want, table)
		}
	}
}
