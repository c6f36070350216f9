// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// rates judges how much happens at once (S13, where the settings bound it), and how many launches of a
// NodePool fail (L6).
type rates struct {
	bench
	created   window
	disrupted window
	failed    map[string]*window // by NodePool
}

// window counts what has happened within a time. The zero window is empty.
type window struct{ times []time.Time }

// add counts one more, and returns how many there are; reset is called for when they were told.
func (w *window) add(at time.Time, length time.Duration) int {
	w.times = append(w.times, at)
	w.times = slices.DeleteFunc(w.times, func(t time.Time) bool { return at.Sub(t) >= length })
	return len(w.times)
}

func newRates(b bench) *rates { return &rates{bench: b, failed: map[string]*window{}} }

func (j *rates) claim(at time.Time, was *karpv1.NodeClaim, x *claim) {
	fresh := was == nil && (x.CreationTimestamp.IsZero() || at.Sub(x.CreationTimestamp.Time) <= j.settings.ObjectLag+time.Second)
	if fresh {
		j.bound(&j.created, at, j.settings.MostCreated, "NodeClaims were created")
	}
	if !x.lives() && !x.says(karpv1.ConditionTypeRegistered) && x.initialized.IsZero() {
		j.failure(at, x)
	}
}

func (j *rates) node(at time.Time, was *corev1.Node, x *node) {
	if was != nil && !disrupted(was) && x.lives() && disrupted(x.Node) && x.DeletionTimestamp == nil {
		j.bound(&j.disrupted, at, j.settings.MostDisrupted, "nodes began to be disrupted")
	}
}

func (j *rates) bound(w *window, at time.Time, most int, what string) {
	if most <= 0 {
		return
	}
	if n := w.add(at, time.Minute); n > most {
		j.violation("S13", "cluster", w.times[0], fmt.Sprintf("%d %s within a minute, more than %d", n, what, most))
		w.times = nil
	}
}

// failure counts a NodeClaim that ended without a Node.
func (j *rates) failure(at time.Time, x *claim) {
	w := j.failed[x.pool()]
	if w == nil {
		w = &window{}
		j.failed[x.pool()] = w
	}
	if n := w.add(at, time.Hour); n > j.settings.MostFailed {
		j.violation("L6", "nodepool/"+x.pool(), w.times[0], fmt.Sprintf("%d of its NodeClaims ended within an hour without a Node", n))
		w.times = nil
	}
}

func (j *rates) pool(_ time.Time, x *pool) {
	if !x.lives() {
		delete(j.failed, x.Name)
	}
}
