package kube

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// BeginMoveRequest lists nodes that will be deleted once their replacements are ready.
type BeginMoveRequest struct {
	Nodes []string // keys
	// Homes are existing nodes where pods fit; Bought are the NodeClaims that are launched for
	// the other pods.
	Homes  []schedule.Nomination
	Bought []LaunchedClaim
}

// LaunchedClaim is a claim that is about to be created, or was created just now.
type LaunchedClaim struct {
	Claim   *karpv1.NodeClaim
	Choices []offering.Ref
	Pods    []cluster.PodRef
}

// BeginMove counts nodes as leaving although they are not deleted yet, and promises their pods
// capacity. Both happen in one step, so that no decision sees the pods without a node and
// launches nodes for them. It holds until the nodes are gone or CancelMove is called; a node that
// is already leaving keeps leaving.
//
// The claims may not exist yet (see Launched): if they were recorded afterwards, a decision in
// between could give their capacity to other pods.
func (m *Mirror) BeginMove(d BeginMoveRequest) { m.change(func() news { return m.depart(d) }) }

func (m *Mirror) depart(d BeginMoveRequest) news {
	for _, b := range d.Bought {
		m.expect(b.Claim, b.Choices, time.Now())
	}
	var woke []string
	for _, key := range d.Nodes {
		if m.claims[key] != nil {
			m.moving[key] = true
			woke = append(woke, m.tellClaim(key)...)
		}
	}
	for _, h := range d.Homes {
		m.promise(h.Node, h.Pods)
	}
	for _, b := range d.Bought {
		m.promise(b.Claim.Name, b.Pods)
	}
	return news{woke: m.unpromised(woke)}
}

// expect adds a claim that no watch has shown yet to the Snapshot.
func (m *Mirror) expect(c *karpv1.NodeClaim, choices []offering.Ref, now time.Time) {
	_, unseen := m.unseen[c.Name]
	if m.claims[c.Name] != nil && !unseen {
		return // a watch has shown a newer version
	}
	m.unseen[c.Name] = now
	m.offerings[c.Name] = memo{of: m.catalogs[ClassOf(c.Spec.NodeClassRef)], choices: offering.RotateZones(choices, string(c.UID))}
	m.setClaim(c)
}

// unpromised returns the pods that were promised no capacity.
func (m *Mirror) unpromised(uids []string) []string {
	var out []string
	for _, uid := range uids {
		if _, ok := m.promises[uid]; !ok {
			out = append(out, uid)
		}
	}
	return out
}

// CancelMove reverts BeginMove: the nodes accept pods again, their pods count as bound where they
// are, and claims that no watch has shown are forgotten.
func (m *Mirror) CancelMove(nodes, claims []string) {
	m.change(func() news { return m.stay(nodes, claims) })
}

func (m *Mirror) stay(nodes, claims []string) news {
	var woke []string
	for _, key := range nodes {
		if m.moving[key] {
			delete(m.moving, key)
			woke = append(woke, m.settleDown(key)...)
		}
	}
	for _, name := range claims {
		if _, unseen := m.unseen[name]; unseen {
			woke = append(woke, m.removeClaim(m.claims[name])...)
		}
	}
	return news{woke: woke}
}

// settleDown makes the pods of a node that stays after all count as bound there. It returns the
// pods that need capacity all the same because the node was deleted meanwhile.
func (m *Mirror) settleDown(key string) []string {
	woke := m.tellClaim(key)
	w := m.worldNodes[key]
	for uid := range m.podsOn[w.Name] {
		if !w.Leaving {
			m.breakPromise(uid)
		}
		woke = append(woke, m.tellPod(uid)...)
	}
	return woke
}

// awaitedThere reports whether a pod on a moving node was promised capacity on this one. Such a
// promise does not lapse, since the scheduler cannot bind the pod yet.
func (m *Mirror) awaitedThere(key string) bool {
	if len(m.moving) == 0 {
		return false
	}
	for uid := range m.promised[key] {
		if p := m.pods[uid]; p != nil && p.Spec.NodeName != "" && m.moving[m.keyOf(p.Spec.NodeName)] {
			return true
		}
	}
	return false
}

// Machine returns a claim with its Node and pods; false when there is no such claim.
func (m *Mirror) Machine(claim string) (Machine, bool) {
	m.lock()
	defer m.mu.Unlock()
	c := m.claims[claim]
	if c == nil {
		return Machine{}, false
	}
	return m.machine(c), true
}
