// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// eventConfirmed is the reason of karve's event that a person has confirmed that VMs without
	// NodeClaims may be deleted.
	eventConfirmed = "OrphanedInstancesConfirmed"
	// massWindow is within which time deletions count as one.
	massWindow = 5 * time.Minute
)

// ownership judges requests that delete resources: they are about this cluster's (S2), and not about
// many VMs at once that work and whose NodeClaims nobody deleted (S12).
type ownership struct {
	bench
	known     map[string]Resource // what the last list has
	vms       int                 // how many VMs of ours it has
	asked     []vmDeletion
	working   []vmDeletion // those of asked for that were judged to work
	confirmed time.Time    // when a person confirmed last
}

type vmDeletion struct {
	at time.Time
	vm Resource
}

func newOwnership(b bench) *ownership { return &ownership{bench: b, known: map[string]Resource{}} }

func (j *ownership) cloud(_ time.Time, resources []Resource) {
	clear(j.known)
	j.vms = 0
	for _, r := range resources {
		j.known[r.key()] = r
		if r.Kind == VM && j.ours(r) {
			j.vms++
		}
	}
}

func (j *ownership) ours(r Resource) bool {
	return r.ours(j.settings.Cluster) || r.inherited(j.settings.Cluster)
}

func (j *ownership) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && e.Reason == eventConfirmed {
		j.confirmed = at
	}
}

func (j *ownership) request(at time.Time, r Request) {
	if r.Method != http.MethodDelete || !r.done() {
		return
	}
	of, known := j.resource(r.Resource)
	switch {
	case !known:
	case of.Kind == Disk && len(of.Tags) == 0: // known to karve by its name
	case !j.ours(of):
		j.violation("S2", of.name(), at, fmt.Sprintf("karve asked to delete %s, which is not this cluster's (tags %v)", of.ID, of.Tags))
	case of.Kind == VM:
		j.asked = append(j.asked, vmDeletion{at, of})
	}
}

// resource is the resource, or the one that it is a part of, such as an extension.
func (j *ownership) resource(id string) (Resource, bool) {
	id, _, _ = strings.Cut(resourceKey(id), "?")
	if r, ok := j.known[id]; ok {
		return r, true
	}
	of, _, part := strings.Cut(id, "/extensions/")
	r, ok := j.known[of]
	return r, part && ok
}

func (j *ownership) check(at time.Time) {
	j.asked = slices.DeleteFunc(j.asked, func(d vmDeletion) bool {
		due := at.Sub(d.at) >= j.settings.ObjectLag
		if due && j.works(d.vm) && !slices.ContainsFunc(j.working, func(other vmDeletion) bool { return other.vm.key() == d.vm.key() }) {
			j.working = append(j.working, d)
		}
		return due
	})
	j.working = slices.DeleteFunc(j.working, func(d vmDeletion) bool { return at.Sub(d.at) > massWindow+j.settings.ObjectLag })
	if n := len(j.working); n > max(3, j.vms/10) && (j.confirmed.IsZero() || at.Sub(j.confirmed) > j.settings.Remember) {
		j.violation("S12", j.working[0].vm.name(), j.working[0].at, fmt.Sprintf("karve asked to delete %d VMs of %d within %s whose nodes work and whose NodeClaims nobody deleted",
			n, j.vms, massWindow))
		j.working = nil
	}
}

// works reports whether the VM's Node is ready and its NodeClaim was not deleted; it may be missing.
func (j *ownership) works(vm Resource) bool {
	if c := j.cluster.claims[types.UID(vm.tag(tagClaimUID))]; c != nil && !c.deleted.IsZero() {
		return false
	}
	for _, n := range j.cluster.nodes {
		if n.lives() && n.DeletionTimestamp == nil && resourceKey(n.Spec.ProviderID) == vm.key() {
			return ready(n.Node)
		}
	}
	return false
}
