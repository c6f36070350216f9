// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// Script is the scenario as the engine's own checker reads it.
func Script(s *scenario.Scenario) *enginetest.Script {
	out := &enginetest.Script{
		Types: s.Types, Quotas: map[string]int64{}, Settings: s.Settings,
		Namespaces: map[string]map[string]string{"default": namespaceLabels()},
	}
	types := kube.NewInstanceTypes(s.Types)
	for _, p := range s.Pools {
		out.Pools = append(out.Pools, kube.Pool(p))
	}
	for _, d := range s.DaemonSets {
		out.Daemons = append(out.Daemons, kube.Daemon(d))
	}
	for i, n := range s.Nodes {
		out.Nodes = append(out.Nodes, kube.Node(n, s.Claims[i], types, nil))
	}
	for _, pods := range [][]*corev1.Pod{s.Bound, s.Pending} {
		for _, p := range pods {
			out.Pods = append(out.Pods, Pod(p))
		}
	}
	return out
}

// Audit looks for faults that no valid plan for s has, at any size and in linear
// time: a pod that is not there exactly once, a new node that is too small for its
// pods with any of its offerings, two pods on one node against anti-affinity. It
// is not a full check (see the tests, and package judge); it keeps a broken engine from
// looking fast.
func Audit(s *scenario.Scenario, plan schedule.Plan) error {
	pods := map[string]cluster.Pod{}
	for _, p := range s.Pending {
		pods[string(p.UID)] = Pod(p)
	}
	seen := map[string]bool{}
	for _, group := range groups(plan) {
		for _, ref := range group {
			if _, ok := pods[ref.UID]; !ok || seen[ref.UID] {
				return fmt.Errorf("pod %s is not pending or in the plan twice", ref.Name)
			}
			seen[ref.UID] = true
		}
	}
	if len(seen) != len(pods) {
		return fmt.Errorf("the plan has %d pods of %d", len(seen), len(pods))
	}
	allocatable := map[string]quantity.Amounts{}
	for _, t := range s.Types {
		allocatable[t.Name] = t.Capacity.Sub(t.Overhead)
	}
	for i, l := range plan.Launches {
		if err := auditLaunch(l, pods, allocatable); err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
	}
	return auditNodes(plan, pods)
}

func auditNodes(plan schedule.Plan, pods map[string]cluster.Pod) error {
	for i, l := range plan.Launches {
		if err := auditNeighbours(l.Pods, pods); err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
	}
	for _, n := range plan.Nominations {
		if err := auditNeighbours(n.Pods, pods); err != nil {
			return fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return nil
}

func groups(plan schedule.Plan) [][]cluster.PodRef {
	var out [][]cluster.PodRef
	for _, l := range plan.Launches {
		out = append(out, l.Pods)
	}
	for _, n := range plan.Nominations {
		out = append(out, n.Pods)
	}
	for _, u := range plan.Unplaced {
		out = append(out, u.Pods)
	}
	return out
}

func auditLaunch(l schedule.Launch, pods map[string]cluster.Pod, allocatable map[string]quantity.Amounts) error {
	sum := quantity.Amounts{}.Add(l.Daemons)
	for _, ref := range l.Pods {
		sum = sum.Add(pods[ref.UID].Requests)
	}
	for _, c := range l.Offerings {
		if err := holds(allocatable[c.Type], sum, c); err != nil {
			return err
		}
	}
	return nil
}

// auditNeighbours looks at pods that are to share a node.
func auditNeighbours(group []cluster.PodRef, pods map[string]cluster.Pod) error {
	for _, ref := range group {
		if other := repelled(ref, group, pods); other != "" {
			return fmt.Errorf("%s and %s share a node, against anti-affinity", ref.Name, other)
		}
	}
	return nil
}

func holds(room, sum quantity.Amounts, c offering.Ref) error {
	for name, n := range sum {
		if n > room[name] {
			return fmt.Errorf("%s has %d of %s, its pods ask for %d", c.Type, room[name], name, n)
		}
	}
	return nil
}

// repelled names a neighbour that the pod's required anti-affinity keeps off its node.
func repelled(ref cluster.PodRef, neighbours []cluster.PodRef, pods map[string]cluster.Pod) string {
	for _, t := range pods[ref.UID].AntiAffinity {
		if t.Weight != 0 || t.Key != cluster.LabelHostname {
			continue
		}
		for _, n := range neighbours {
			if n.UID != ref.UID && picks(t.Selector, pods[n.UID].Labels) {
				return n.Name
			}
		}
	}
	return ""
}

// picks reads the one kind of selector that scenarios use: labels that are equal.
func picks(s cluster.Selector, labels map[string]string) bool {
	for _, r := range s.Labels {
		if len(r.Values) != 1 || labels[r.Key] != r.Values[0] {
			return false
		}
	}
	return !s.Nothing
}
