// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// conditionClaimed is of a NodePool that says in words which VMs have lost their NodeClaims: they wait
// for a person, and are no leak that went unnoticed.
const conditionClaimed = "karve.dev/InstancesClaimed"

// leaks judges that each resource has a NodeClaim (S1), and no NodeClaim two VMs (S3).
type leaks struct {
	bench
	orphans overdue
	vmOf    map[string]vmOfClaim // by the NodeClaim's UID
}

type vmOfClaim struct {
	vm     Resource
	listed time.Time // when it was last
}

func newLeaks(b bench) *leaks {
	return &leaks{bench: b, orphans: newOverdue(), vmOf: map[string]vmOfClaim{}}
}

// cloud judges by the time of the list: a resource that was not listed for a while may be gone.
func (j *leaks) cloud(at time.Time, resources []Resource) {
	listed := map[string]Resource{}
	for _, r := range resources {
		if !r.ours(j.settings.Cluster) && !r.inherited(j.settings.Cluster) {
			continue
		}
		listed[r.key()] = r
		if r.Kind == VM && r.tag(tagClaimUID) != "" {
			j.pair(at, r)
		}
		j.orphans.set(r.key(), at, !j.owned(r))
	}
	for key := range j.orphans.since {
		if _, still := listed[key]; !still {
			j.orphans.set(key, at, false)
		}
	}
	j.forget(at)
	if j.admitted() {
		return
	}
	drained := j.drained(at, listed)
	for _, key := range j.orphans.late(at, j.settings.OrphanBound) {
		r, since := listed[key], j.orphans.since[key]
		if drained[r.tag(tagClaimUID)] {
			continue
		}
		j.violation("S1", r.name(), since, fmt.Sprintf("%s of this cluster has had no NodeClaim for %s (claim UID %q): it should have been deleted",
			r.ID, at.Sub(since).Round(time.Second), r.tag(tagClaimUID)))
	}
}

// drained are the UIDs of NodeClaims that are missing, as karve says while it drains their Nodes.
func (j *leaks) drained(at time.Time, listed map[string]Resource) map[string]bool {
	all := map[string]bool{}
	for uid := range j.cluster.unclaimed {
		if n := j.cluster.nodes[uid]; n != nil && j.cluster.saysUnclaimed(at, uid) {
			if vm, there := listed[resourceKey(n.Spec.ProviderID)]; there && vm.tag(tagClaimUID) != "" {
				all[vm.tag(tagClaimUID)] = true
			}
		}
	}
	return all
}

// owned reports whether the resource's NodeClaim exists. One of Karpenter's that is no VM says too
// little of whose it is.
func (j *leaks) owned(r Resource) bool {
	if uid := r.tag(tagClaimUID); uid != "" {
		x := j.cluster.claims[types.UID(uid)]
		return x != nil && x.lives()
	}
	return r.Kind != VM || len(j.cluster.claimsByID[r.key()]) > 0
}

// pair compares the VM with those that its NodeClaim had before. Names of VMs are functions of UIDs,
// so that two names are two VMs, whenever they were listed.
func (j *leaks) pair(at time.Time, vm Resource) {
	uid := vm.tag(tagClaimUID)
	if known, ok := j.vmOf[uid]; ok && known.vm.key() != vm.key() {
		object := vm.name()
		if x := j.cluster.claims[types.UID(uid)]; x != nil {
			object = x.name()
		}
		j.violation("S3", object, at, fmt.Sprintf("two VMs were created for the NodeClaim with UID %s: %s and %s", uid, known.vm.ID, vm.ID))
	}
	j.vmOf[uid] = vmOfClaim{vm, at}
}

// forget forgets VMs that were not listed for long, unless their NodeClaims may have another one.
func (j *leaks) forget(at time.Time) {
	for uid, known := range j.vmOf {
		if x := j.cluster.claims[types.UID(uid)]; (x == nil || !x.lives()) && at.Sub(known.listed) > j.settings.Remember {
			delete(j.vmOf, uid)
		}
	}
}

// admitted reports whether karve says itself that VMs have no NodeClaims.
func (j *leaks) admitted() bool {
	for _, p := range j.cluster.pools {
		for _, c := range p.Status.Conditions {
			if p.lives() && c.Type == conditionClaimed && c.Status == metav1.ConditionFalse {
				return true
			}
		}
	}
	return false
}

func (j *leaks) disturbed(at time.Time) { j.orphans.disturb(at) }

// pairs judges that NodeClaims and provider IDs belong together one to one, ever (S4).
type pairs struct {
	bench
	idOf   map[types.UID]string // the provider ID that a NodeClaim got first
	owner  map[string]*claim    // by the key of the provider ID, the NodeClaim that had it first
	shared overdue              // keys of provider IDs that several NodeClaims have
}

func newPairs(b bench) *pairs {
	return &pairs{bench: b, idOf: map[types.UID]string{}, owner: map[string]*claim{}, shared: newOverdue()}
}

func (j *pairs) claim(at time.Time, _ *karpv1.NodeClaim, x *claim) {
	id := x.Status.ProviderID
	key := resourceKey(id)
	if id == "" {
		return
	}
	if first, ok := j.idOf[x.UID]; !ok {
		j.idOf[x.UID] = id
	} else if resourceKey(first) != key {
		j.violation("S4", x.name(), at, fmt.Sprintf("its provider ID was %s and is now %s: a NodeClaim has one VM for all its life", first, id))
		j.idOf[x.UID] = id
	}
	switch before := j.owner[key]; {
	case before == nil:
		j.owner[key] = x
	case before.UID != x.UID && !before.lives() && before.Name != x.Name && x.lives(): // one of the same name was restored
		j.violation("S4", x.name(), at, fmt.Sprintf("its provider ID %s was that of %s, which is gone: a VM belongs to one NodeClaim", id, before.name()))
		j.owner[key] = x
	}
	j.shared.set(key, at, len(j.cluster.claimsByID[key]) > 1)
}

func (j *pairs) check(at time.Time) {
	for _, key := range j.shared.late(at, j.settings.ObjectLag) {
		var names []string
		for _, x := range j.cluster.claimsByID[key] {
			names = append(names, x.Name)
		}
		slices.Sort(names)
		j.violation("S4", "nodeclaim/"+names[0], j.shared.since[key], fmt.Sprintf("NodeClaims %q have the same provider ID: a VM belongs to one NodeClaim", names))
	}
	for uid := range j.idOf {
		if j.cluster.claims[uid] == nil {
			delete(j.idOf, uid)
		}
	}
	for key, x := range j.owner {
		if j.cluster.claims[x.UID] == nil {
			delete(j.owner, key)
		}
	}
}
