// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"maps"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

const (
	// firstBackOff is how long a node is left alone after a move of it failed; each further
	// failure doubles it, up to longestBackOff.
	firstBackOff, longestBackOff = time.Minute, time.Hour
	// toleratedFailures is how many moves in sequence must fail for lack of replacements from a
	// NodePool before it backs off.
	toleratedFailures = 3
	// forgetAfter is how long after its back-off something that failed before counts as new.
	forgetAfter = time.Hour
	// maxFailures is the largest count of failures that is distinguished.
	maxFailures = 100
)

// backOff is how often something failed in sequence, and until when it is not tried again.
type backOff struct {
	kube.BackOff
	round int // of the last failure
}

// backOffs are of nodes and NodePools for which a move failed not long ago. The zero backOffs are
// none.
type backOffs struct {
	nodes map[string]backOff // by key
	pools map[string]backOff // by name
}

// next returns the node's back-off after one more failure. It only reads, since moves fail
// concurrently; set records it.
func (b *backOffs) next(key string, now time.Time) backOff { return b.nodes[key].longer(now, 1) }

// node returns the node's back-off, zero when there is none.
func (b *backOffs) node(key string) backOff { return b.nodes[key] }

// pool returns the NodePool's back-off, zero when there is none.
func (b *backOffs) pool(name string) backOff { return b.pools[name] }

// set records back-offs of nodes.
func (b *backOffs) set(nodes map[string]backOff) {
	if b.nodes == nil {
		b.nodes = map[string]backOff{}
	}
	maps.Copy(b.nodes, nodes)
}

// poolsFailed counts a failure of each of the NodePools, which back off once too many moves in
// sequence could not launch replacements there. Moves that fail in the same round count once: one
// lack of capacity affects them all.
func (b *backOffs) poolsFailed(names map[string]bool, v *view) {
	for name := range names {
		if x := b.pools[name]; x.round != v.round {
			x = x.longer(v.now, toleratedFailures)
			x.round = v.round
			b.pools = with(b.pools, name, x)
		}
	}
}

// longer is the back-off after one more failure; none before the tolerated number is reached.
func (x backOff) longer(now time.Time, tolerated int) backOff {
	x.Failures = min(x.Failures+1, maxFailures)
	if over := x.Failures - tolerated; over >= 0 {
		x.Until = now.Add(min(firstBackOff<<min(over, 10), longestBackOff))
	} else {
		x.Until = now
	}
	return x
}

// poolsSucceeded forgets the failures of NodePools that launched replacements.
func (b *backOffs) poolsSucceeded(names map[string]bool) {
	for name := range names {
		delete(b.pools, name)
	}
}

// current lists the nodes that back off, and forgets failures of long ago.
func (b *backOffs) current(now time.Time) map[string]time.Time {
	old := func(_ string, x backOff) bool { return now.Sub(x.Until) > forgetAfter }
	maps.DeleteFunc(b.nodes, old)
	maps.DeleteFunc(b.pools, old)
	out := map[string]time.Time{}
	for key, x := range b.nodes {
		if now.Before(x.Until) {
			out[key] = x.Until
		}
	}
	return out
}

// restorePool records the back-off that an earlier process wrote on a NodePool.
func (b *backOffs) restorePool(name string, written kube.BackOff, now time.Time) {
	b.pools = with(b.pools, name, restored(written, now))
}

// restored is a back-off that an earlier process wrote, at most longestBackOff from now: a longer
// one was written by a wrong clock.
func restored(written kube.BackOff, now time.Time) backOff {
	x := backOff{BackOff: written}
	x.Failures = min(x.Failures, maxFailures)
	if latest := now.Add(longestBackOff); x.Until.After(latest) {
		x.Until = latest
	}
	return x
}

// annotate writes the back-off on a claim; the zero back-off changes nothing.
func (x backOff) annotate(claim *karpv1.NodeClaim) {
	if x.Failures > 0 {
		annotate(claim, kube.BackOffAnnotation, x.String())
	}
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}
