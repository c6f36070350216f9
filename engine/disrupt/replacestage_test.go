// SPDX-License-Identifier: Apache-2.0

package disrupt

import "testing"

// A size that failed is not tried again with every node, and one that paid is found again.
func TestFirstSize(t *testing.T) {
	for name, c := range map[string]struct {
		last           map[string]int // see replaceStage.replacedAtOnce
		queueIndex     int
		size, attempts int
	}{
		"the first node of a pool":               {nil, 3, 32, 32},
		"the next one after eight nodes at once": {map[string]int{"web": 8}, 3, 8, 32},
		"every eighth after eight nodes at once": {map[string]int{"web": 8}, 16, 32, 32},
		"the next one after a failure":           {map[string]int{"web": 1}, 3, 1, 32},
		"every eighth after a failure":           {map[string]int{"web": 1}, 16, 32, 3},
		"after a failure in another pool":        {map[string]int{"batch": 1}, 3, 32, 32},
	} {
		t.Run(name, func(t *testing.T) {
			s := &replaceStage{replacedAtOnce: c.last}
			size, attempts := s.firstSize(&node{Node: &Node{Pool: "web"}, queueIndex: c.queueIndex})
			if size != c.size || attempts != c.attempts {
				t.Errorf("sets of %d first, and %d sets at most; want %d and %d", size, attempts, c.size, c.attempts)
			}
		})
	}
}
