// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

const (
	// outcomeKnown is how long after the deletion of the last of its nodes a consolidation may
	// still turn out to be undone.
	outcomeKnown = 10 * time.Minute
	// recreatedWithin is how long after the deletion of the last of its nodes the replacements of
	// its pods are created at the latest: their owners create them upon eviction. Pods that are
	// created later have another cause, such as a rollout.
	recreatedWithin = 10 * time.Second
	// firstPause is how long a NodePool is not consolidated after a consolidation there was
	// undone; each further one doubles it, up to longestPause.
	firstPause, longestPause = 30 * time.Second, 6 * time.Hour
	// maxOpen bounds how many consolidations are watched: so many are enough to find out whether
	// they are undone.
	maxOpen = 1000
)

// outcomes watches consolidations whose pods kube-scheduler may yet bind to other nodes, and
// pauses the NodePools where it did.
type outcomes struct {
	mirror   *state.Mirror
	report   *reporter
	disabled bool // upstream's rules hold, which have no pauses

	watched map[string]*displacement // by move
	checked map[string]bool          // claims that were checked
	pauses  map[string]pause         // by NodePool
}

// displacement has the pods that a consolidation moved, until it is known whether they run on the
// planned nodes.
type displacement struct {
	id     string
	nodes  []string          // claims that were deleted
	pools  map[string]bool   // their NodePools, without those that were paused since
	owners map[types.UID]int // how many pods each owner of displaced pods had
	since  time.Time         // the claims were deleted
	until  time.Time
}

// pause is for how long a NodePool is not consolidated.
type pause struct {
	length time.Duration
	until  time.Time
}

// displacedBy returns the pods that a move displaces, before its nodes are deleted; nil for none.
// Only consolidations count: the other moves must be made whatever kube-scheduler does.
func (o *outcomes) displacedBy(m *move, v *view) *displacement {
	if !m.consolidates() || o.disabled {
		return nil
	}
	owners := map[types.UID]bool{}
	d := &displacement{id: m.id, nodes: m.Nodes, pools: map[string]bool{}, since: v.now}
	for _, key := range m.Nodes {
		node := v.byClaim[key]
		d.pools[node.InSnapshot.Pool] = true
		for _, p := range node.Pods {
			if owner := kube.OwnerOf(p); owner != "" && unfinishedWorkload(p) {
				owners[owner] = true
			}
		}
	}
	if len(owners) == 0 {
		return nil
	}
	d.owners = o.mirror.CountPods(owners)
	return d
}

// watch begins to watch the outcome of a consolidation.
func (o *outcomes) watch(d *displacement) {
	if d == nil || len(o.watched) >= maxOpen {
		return
	}
	o.watched = with(o.watched, d.id, d)
}

// pause returns the NodePool's pause; false when there is none.
func (o *outcomes) pause(pool string) (pause, bool) {
	p, ok := o.pauses[pool]
	return p, ok
}

// pausedUntil returns until when the NodePool is not consolidated, zero when it never was paused.
func (o *outcomes) pausedUntil(pool string) time.Time { return o.pauses[pool].until }

// pauseUndone finds consolidations that were undone, which is when nodes had to be launched for
// pods that they displaced, and pauses their NodePools.
func (o *outcomes) pauseUndone(v *view) {
	o.forgetOld(v)
	for _, x := range o.withoutScaledUp(o.relaunches(v)) {
		for _, pool := range slices.Sorted(maps.Keys(x.of.pools)) {
			if o.extendPause(pool, v.now) {
				o.report.undone(x, pool, o.pauses[pool].length)
			}
		}
	}
}

// forgetOld ends the watch over consolidations that were not undone, and deletes the pauses of
// NodePools where nothing was undone for long.
func (o *outcomes) forgetOld(v *view) {
	unknown := map[string]bool{}
	for id, d := range o.watched {
		if d.until.IsZero() || v.anyExists(d.nodes) { // its nodes are still draining
			d.until = v.now.Add(outcomeKnown)
		}
		if v.now.After(d.until) || len(d.pools) == 0 {
			delete(o.watched, id)
		}
		for pool := range d.pools {
			unknown[pool] = true
		}
	}
	maps.DeleteFunc(o.pauses, func(pool string, p pause) bool {
		return !unknown[pool] && v.now.Sub(p.until) > max(2*p.length, forgetAfter)
	})
}

// relaunch is a claim that was launched for a pod like those that a consolidation displaced.
type relaunch struct {
	of    *displacement
	claim string
	pod   *corev1.Pod
}

// relaunches checks once every claim that was launched since the oldest consolidation whose
// outcome is unknown, in the order of names.
func (o *outcomes) relaunches(v *view) []relaunch {
	if len(o.watched) == 0 {
		o.checked = nil
		return nil
	}
	var found []relaunch
	checked := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(v.byClaim)) {
		node := v.byClaim[key]
		if node.Claim.Annotations[kube.ReplacesAnnotation] != "" || !o.launchedSinceAny(node.Claim.CreationTimestamp.Time) {
			continue
		}
		checked[key] = o.checked[key] || node.Nominated > 0
		if !checked[key] || o.checked[key] {
			continue // not known yet for which pods it was launched, or checked before
		}
		found = append(found, o.relaunchesFor(node, v)...)
	}
	o.checked = checked
	return found
}

// launchedSinceAny reports whether a claim of that time may have been launched for displaced pods.
func (o *outcomes) launchedSinceAny(created time.Time) bool {
	for _, d := range o.watched {
		if d.before(created) {
			return true
		}
	}
	return false
}

func (o *outcomes) relaunchesFor(node kube.ManagedNode, v *view) []relaunch {
	var found []relaunch
	for _, p := range o.mirror.NominatedTo(node.Claim.Name) {
		for _, d := range o.watched {
			if !d.before(node.Claim.CreationTimestamp.Time) || !d.displaced(p, v) {
				continue
			}
			found = append(found, relaunch{of: d, claim: node.Claim.Name, pod: p})
		}
	}
	return found
}

// before reports whether a claim was created after the nodes were deleted. Creation timestamps
// have a resolution of a second.
func (d *displacement) before(created time.Time) bool {
	return !created.Before(d.since.Truncate(time.Second))
}

// displaced reports whether the pod may be one that the consolidation moved, and not one that runs
// on another node that is being deleted.
func (d *displacement) displaced(p *corev1.Pod, v *view) bool {
	if d.owners[kube.OwnerOf(p)] == 0 {
		return false
	}
	if created := p.CreationTimestamp.Time; !d.until.IsZero() && created.After(d.until.Add(recreatedWithin-outcomeKnown)) {
		return false
	}
	return p.Spec.NodeName == "" || slices.ContainsFunc(d.nodes, func(key string) bool {
		return v.byClaim[key].InSnapshot.Name == p.Spec.NodeName
	})
}

// withoutScaledUp leaves out pods of owners that were scaled up meanwhile: additional pods were not
// displaced.
func (o *outcomes) withoutScaledUp(all []relaunch) []relaunch {
	if len(all) == 0 {
		return nil
	}
	owners := map[types.UID]bool{}
	for _, x := range all {
		owners[kube.OwnerOf(x.pod)] = true
	}
	pods := o.mirror.CountPods(owners)
	return slices.DeleteFunc(all, func(x relaunch) bool {
		owner := kube.OwnerOf(x.pod)
		return pods[owner] > x.of.owners[owner]
	})
}

// extendPause pauses the NodePool, twice as long as the last time, and reports whether it was not
// paused already. Consolidations from before the pause do not count for it again.
func (o *outcomes) extendPause(pool string, now time.Time) bool {
	for _, d := range o.watched {
		delete(d.pools, pool)
	}
	p := o.pauses[pool]
	if now.Before(p.until) {
		return false
	}
	p.length = min(max(2*p.length, firstPause), longestPause)
	p.until = now.Add(p.length)
	o.pauses = with(o.pauses, pool, p)
	return true
}

// restorePause records the pause that an earlier process wrote on a NodePool, at most longestPause
// from now.
func (o *outcomes) restorePause(pool string, written kube.ConsolidationPause, now time.Time) {
	p := pause{until: written.Until}
	p.length = min(time.Duration(min(written.Seconds, int(longestPause/time.Second)))*time.Second, longestPause)
	if latest := now.Add(longestPause); p.until.After(latest) {
		p.until = latest
	}
	o.pauses = with(o.pauses, pool, p)
}

// unfinishedWorkload reports whether the pod, terminating or not, has not finished and is neither
// a DaemonSet's nor a mirror pod.
func unfinishedWorkload(p *corev1.Pod) bool {
	return !kube.Terminal(p) && !kube.OwnedByDaemonSet(p) && !kube.OwnedByNode(p)
}
