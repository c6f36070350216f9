// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/internal/panics"
)

// Mirror keeps a cluster.Snapshot current from watch events. It keeps the API objects it was
// shown, which must not be changed, and for each node the pods that are nominated to it.
// Those pods count as bound until the scheduler binds them or the nomination lapses, so
// that no two batches launch a node for the same pod.
type Mirror struct {
	// NodeClassKind is the kind of node class that this installation serves. Pools with another
	// kind of node class belong to another provisioner in the same cluster and are ignored. Set it
	// before the first event; the zero kind takes every pool.
	NodeClassKind schema.GroupKind
	// OnUrgent is called, before wake, with each pod whose node is interrupted by the cloud; nil
	// is allowed. Like wake it must not call back into the Mirror. Set it before the first event.
	OnUrgent func(pod string)
	// OnNominated is called with each pod that takes over the nomination of the evicted pod that it
	// replaces, and the key of the node; nil is allowed. Set it before the first event.
	OnNominated func(pod, node string)

	// Panics receives the panics of event handlers; the object that caused one is left out. Nil
	// recovers nothing. Set it before the first event.
	Panics *panics.Reporter
	// OnLeftOut is called with each object that is left out of the Snapshot, and why; nil is
	// allowed. It must not call back into the Mirror.
	OnLeftOut func(o client.Object, because *panics.Panic)
	// OnLocked is called, with the lock held, with how long an event, a query or a record of a
	// decision waited for it; nil is allowed. It must not block. Set it before the first event.
	OnLocked func(waited time.Duration)

	wake      func(pod string)
	revision  revision
	pdbs      *PDBs      // has a lock of its own
	lifetimes *Lifetimes // likewise
	feeds     []*feed

	// deciding is held while a decision has the Snapshot; lock it before mu. No event waits for it.
	deciding sync.Mutex

	mu sync.Mutex // guards everything below, but not the cluster.Builder that a decision has taken
	// halfChanged is set while the parts are being changed. If it is already set when the lock is
	// taken, the last change ended with a panic and the parts cannot be relied on.
	halfChanged bool
	leftOut     leftOutObjects
	parts       parts
}

// NewMirror returns a Mirror of an empty cluster. wake is called with the UID of each pod that
// starts to need capacity, and with "" when something else changed that a new plan may depend on,
// such as a NodePool. It must not call back into the Mirror. Nil is allowed.
func NewMirror(wake func(pod string)) *Mirror {
	if wake == nil {
		wake = func(string) {}
	}
	m := &Mirror{wake: wake, pdbs: NewPDBs(), lifetimes: &Lifetimes{}, leftOut: leftOutObjects{}}
	m.parts = newParts(&m.revision, m.pdbs, m.lifetimes)
	return m
}

// Revision changes whenever the Snapshot, or anything else that decisions about nodes read, may
// have changed: nodes, what blocks their disruption, pools, budgets, prices. Routine kubelet
// reports every few seconds do not change it. It does not reflect changes that time alone causes.
// The Snapshot of a View that begins after the call shows at least the changes counted here; one
// that had begun before may lack some.
func (m *Mirror) Revision() uint64 { return m.revision.n.Load() }

// DropLapsed ends records that have lapsed. Nodes that do not initialize stop counting as capacity.
// Nominations to them end, and nominations to initialized nodes where the scheduler did not bind
// the pod. Objects that were left out and have changed are tried again.
func (m *Mirror) DropLapsed() {
	now := time.Now()
	m.retryLeftOut(now)
	m.catchUp()
	m.change(func() wakeups {
		waiting := m.parts.writeLapsed(now)
		waiting = append(waiting, m.parts.nodeWriter.writeStuck(now)...)
		waiting = append(waiting, m.parts.nominator.endLapsed(now)...)
		m.parts.tidy()
		return wakeups{pods: waiting}
	})
}

// catchUp writes the pods whose PodDisruptionBudgets changed before the call, and the claims whose
// catalog did. That is put off until the Snapshot is read, and may concern every pod and every
// claim, so the lock is released in between.
func (m *Mirror) catchUp() {
	m.change(func() wakeups { m.parts.queue(); return wakeups{} })
	for more := true; more; {
		m.change(func() (w wakeups) {
			w.pods, more = m.parts.writeQueued()
			return w
		})
	}
}

// change runs f under the lock and calls the callbacks after the lock is released: code that
// they trigger may use the Mirror.
func (m *Mirror) change(f func() wakeups) {
	n := m.locked(f)
	if m.OnUrgent != nil {
		for _, uid := range n.urgent {
			m.OnUrgent(uid)
		}
	}
	for _, uid := range n.pods {
		m.wake(uid)
	}
	if m.OnNominated != nil {
		for uid, node := range n.nominated {
			m.OnNominated(uid, node)
		}
	}
}

func (m *Mirror) locked(f func() wakeups) wakeups {
	m.lock()
	defer m.mu.Unlock()
	m.halfChanged = true
	n := f()
	m.halfChanged = false
	return n
}

// lock locks the Mirror, and restores the parts if a panic left them half changed.
func (m *Mirror) lock() {
	m.waitForLock()
	if m.halfChanged {
		m.restore()
	}
}

func (m *Mirror) waitForLock() {
	var waited time.Duration
	if !m.mu.TryLock() {
		began := time.Now()
		m.mu.Lock()
		waited = time.Since(began)
	}
	if m.OnLocked != nil {
		m.OnLocked(waited)
	}
}
