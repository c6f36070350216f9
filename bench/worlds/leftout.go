// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// LeftOut is a pod that the plan leaves out although a node would take it beside everything planned.
type LeftOut struct {
	Pod cluster.PodRef
	// Node exists, is in flight, or says what could be launched.
	Node string
	// Launch is set when the node would have to be launched.
	Launch  bool
	Because string // what the plan says
}

// String is the pod in one line.
func (l LeftOut) String() string {
	if l.Launch {
		return fmt.Sprintf("%s is left out (%s) although a node could be launched: %s", l.Pod.Name, l.Because, l.Node)
	}
	return fmt.Sprintf("%s is left out (%s) although node %s would take it", l.Pod.Name, l.Because, l.Node)
}

// candidate is a node that could be launched after the plan, within limits.
type candidate struct {
	node   *corev1.Node
	what   string
	launch launchKey
}

// launchKey says which candidates one NodeClaim could list: those of a NodePool with the same
// values of the labels that it leaves open.
type launchKey struct{ pool, labels string }

// leftOut lists the pods that are left out against no rule of rules.go, and counts for each rule the pods that it
// excuses.
func (j *judged) leftOut(excused map[string]int) []LeftOut {
	if len(j.plan.Unplaced) == 0 {
		return nil
	}
	beside := map[bool]*afterPlan{} // real pods do not see virtual ones
	defer func() {
		for _, after := range beside {
			after.close()
		}
	}()
	var out []LeftOut
	for _, u := range j.plan.Unplaced {
		seen := map[string]bool{}
		for _, ref := range u.Pods {
			virtual := j.virtual[ref.UID]
			if beside[virtual] == nil {
				beside[virtual] = j.afterPlan(virtual, j.daemonsOn)
			}
			after := beside[virtual]
			p := j.pods[ref.UID]
			if p == nil || seen[owner(p, "ReplicaSet")] && len(p.Spec.Volumes) == 0 {
				continue // replicas are alike
			}
			seen[owner(p, "ReplicaSet")] = p.OwnerReferences != nil && owner(p, "ReplicaSet") != ""
			l := after.accepted(p)
			if l.Node == "" {
				continue
			}
			if rule := after.excuse(p, l); rule != "" {
				excused[rule]++
				continue
			}
			l.Pod, l.Because = ref, string(u.Because)
			out = append(out, l)
		}
	}
	return out
}

// afterPlan is the cluster with everything planned, virtual pods only where they are asked for.
type afterPlan struct {
	*judged
	virtual bool
	// settled is without the pods and nodes that leave, before is with them.
	settled, before *judge.Scheduler
	candidates      []candidate
	daemonsOn       func(*corev1.Node) []judge.Daemon
}

// afterPlan makes it, with daemonsOn for the pods of DaemonSets that start on a node. It must be closed.
func (j *judged) afterPlan(virtual bool, daemonsOn func(*corev1.Node) []judge.Daemon) *afterPlan {
	c := j.cluster
	c.Placed = slices.DeleteFunc(slices.Clone(c.Placed), func(p judge.Placement) bool { return p.Virtual && !virtual })
	c.Daemons = j.daemons(daemonsOn)
	a := &afterPlan{judged: j, virtual: virtual, settled: c.AfterPlan(true), before: c.AfterPlan(false), daemonsOn: daemonsOn}
	a.candidates = j.candidates(a.settled, a.before)
	return a
}

func (a *afterPlan) close() {
	a.settled.Close()
	a.before.Close()
}

// takes reports whether the node accepts the pod, both while pods and nodes still leave and after
// that.
func (a *afterPlan) takes(p *corev1.Pod, node string) bool {
	return a.settled.Refuses(p, node) == nil && a.before.Refuses(p, node) == nil
}

// accepted finds a node that takes the pod, both while pods and nodes still leave and after that.
func (a *afterPlan) accepted(p *corev1.Pod) LeftOut {
	for _, n := range a.cluster.Nodes {
		if !a.cluster.Leaving[n.Name] && a.takes(p, n.Name) {
			return LeftOut{Node: n.Name}
		}
	}
	listed := map[launchKey][]candidate{}
	for _, c := range a.candidates {
		if !a.wouldTake(p, c) {
			continue
		}
		listed[c.launch] = append(listed[c.launch], c)
		if a.w.Settings.RelaxMinValues || unmetMinValues(a.w.pool(c.launch.pool), listed[c.launch]) == "" {
			return LeftOut{Node: c.what, Launch: true}
		}
	}
	return LeftOut{}
}

// wouldTake reports whether the candidate, once launched, takes the pod.
func (a *afterPlan) wouldTake(p *corev1.Pod, c candidate) bool {
	if !admits(p, c.node) {
		return false
	}
	for _, s := range []*judge.Scheduler{a.settled, a.before} {
		s.AddNode(c.node)
		for _, d := range a.daemonsOn(c.node) {
			s.Start(d)
		}
	}
	defer a.settled.RemoveNode(c.node.Name)
	defer a.before.RemoveNode(c.node.Name)
	return a.takes(p, c.node.Name)
}

// candidates lists the nodes that each NodePool could launch beside the plan.
func (j *judged) candidates(schedulers ...*judge.Scheduler) []candidate {
	var out []candidate
	quota := j.quotaLeft()
	for _, pool := range j.w.NodePools {
		if !launches(pool) {
			continue
		}
		left := j.limitsLeft(pool)
		for i := range j.sold.Types {
			t := &j.sold.Types[i]
			if exceeds(t.Capacity, left) {
				continue
			}
			for k := range t.Offerings {
				o := &t.Offerings[k]
				if o.Unavailable != "" || slices.ContainsFunc(o.QuotaUses, func(u offering.QuotaUse) bool { return short(quota, u) }) {
					continue
				}
				for _, labels := range openLabels(pool) {
					name := fmt.Sprintf("candidate-%d", len(out)+1)
					n, csi := j.newNode(name, pool, t, o, schedule.Launch{Pool: pool.Name, Labels: labels})
					if unmet(pool, n) != "" {
						continue
					}
					for _, s := range schedulers {
						s.Serve(csi)
					}
					what := fmt.Sprintf("%s for %s in %s, %s %v", t.Name, pool.Name, o.Zone, o.CapacityType, labels)
					out = append(out, candidate{n, what, launchKey{pool.Name, fmt.Sprint(labels)}})
				}
			}
		}
	}
	return out
}

func exceeds(capacity, left map[string]int64) bool {
	for name, n := range left {
		need := capacity[name]
		if name == "nodes" {
			need = 1
		}
		if need > n {
			return true
		}
	}
	return false
}

// openLabels are the choices of labels that only the NodePool gives its nodes.
func openLabels(pool *karpv1.NodePool) []map[string]string {
	out := []map[string]string{{}}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key != labelTeam || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		var more []map[string]string
		for _, had := range out {
			for _, v := range r.Values {
				if _, ok := had[r.Key]; ok {
					more = append(more, had) // a second requirement on the label narrows the first
					break
				}
				more = append(more, map[string]string{r.Key: v})
			}
		}
		out = more
	}
	return out
}
