// SPDX-License-Identifier: Apache-2.0

package state

import (
	"k8s.io/apimachinery/pkg/types"
)

// owners counts, for each controller of pods, how many pods it wants and how many of them the snapshot
// has. What is missing is owed: it is to come. So are pods that exist and that the scheduler has not
// looked at yet.
type owners struct {
	builder *builder
	wanted  map[string]int // by UID
	pods    map[string]int // by UID of their owner
}

func newOwners(b *builder) *owners {
	return &owners{builder: b, wanted: map[string]int{}, pods: map[string]int{}}
}

// want records how many pods the controller wants.
func (o *owners) want(owner types.UID, pods int) {
	uid := string(owner)
	if o.wanted[uid] == pods {
		return
	}
	o.wanted[uid] = pods
	if pods == 0 {
		delete(o.wanted, uid)
	}
	o.write(uid)
}

// count adds a pod of the snapshot, or subtracts it (by is 1 or -1).
func (o *owners) count(owner string, by int) {
	if owner == "" {
		return
	}
	o.pods[owner] += by
	if o.pods[owner] == 0 {
		delete(o.pods, owner)
	}
	if o.wanted[owner] > 0 {
		o.write(owner)
	}
}

func (o *owners) write(owner string) {
	o.builder.setOwed(owner, max(0, o.wanted[owner]-o.pods[owner]))
}
