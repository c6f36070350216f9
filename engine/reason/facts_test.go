// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFactsAreDataAndText(t *testing.T) {
	facts := FactsOf(map[string]any{
		"zone": "1", "left": 3, "used": int64(5), "values": []string{"b", "a"}, "counts": map[string]int64{"2": 0, "1": 7},
		"nothing": "", "empty": []string{}, "none": map[string]int64{},
	})
	data, err := json.Marshal(Cut{By: Limits, Removed: 2, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"By":"Limits","Removed":2,"Detail":"","Facts":{"counts":{"1":7,"2":0},"left":3,"used":5,"values":["b","a"],"zone":"1"}}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"counts": "[1:7 2:0]", "left": "3", "values": "[b a]", "zone": "1", "nothing": ""} {
		if got := facts.Text(name); got != want {
			t.Errorf("%s reads %q, want %q", name, got, want)
		}
	}
}

func TestFunnelsAddUp(t *testing.T) {
	f := Funnel{Offerings: 9, Cuts: []Cut{{By: Taints, Removed: 4}, {By: Quota, Removed: 2}}}
	if last, _ := f.Last(); f.Left() != 3 || last.By != Quota {
		t.Errorf("%d left after %s", f.Left(), last.By)
	}
}
