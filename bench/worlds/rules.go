// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// rule allows karve to leave out a pod that the scheduler would accept. Its id is that of a rule in
// docs/behaviour.
type rule struct {
	id    string
	holds func(a *afterPlan, p *corev1.Pod, l LeftOut) bool
}

// rules are all that excuse a pod that is left out.
var rules = []rule{
	{"POD-2", func(_ *afterPlan, p *corev1.Pod, _ LeftOut) bool { return optsOut(p) }},
	{"POD-3", func(_ *afterPlan, p *corev1.Pod, _ LeftOut) bool { return unsupported(p) }},
	{"REQUIREMENT-4", func(_ *afterPlan, p *corev1.Pod, _ LeftOut) bool { return requiresHost(p) }},
	// On a node without any zone label kube-scheduler does not look at the zone labels of volumes.
	{"VOLUME-6", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return !l.Launch && a.noZone(l.Node) && a.zonedVolume(p)
	}},
	// A topology domain without a node counts, as the emptiest, where the pod could get one.
	{"SPREAD-1", func(a *afterPlan, p *corev1.Pod, _ LeftOut) bool { return a.emptyDomain(p) }},
	// A pod does not join a launch that would then list too few values for minValues. A launch asks for one
	// term of the pod's required node affinity.
	{"MIN-VALUES-1", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return !l.Launch && !slices.ContainsFunc(byTerm(p), func(one *corev1.Pod) bool { return !a.leavesTooFewValues(one, l.Node) })
	}},
	// No node is launched for a pod where each of its terms alone leaves too few values.
	{"MIN-VALUES-1", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return l.Launch && a.hasMinValues() && !slices.ContainsFunc(byTerm(p), func(one *corev1.Pod) bool { return a.accepted(one).Node != "" })
	}},
	// Rules over topology domains put a pod in one of them, which alone must have the values that
	// minValues asks for.
	{"MIN-VALUES-4", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool { return a.eachDomainHasTooFewValues(p, l) }},
	// A launch may be in any of the domains of its offerings, and its pods count in each.
	{"MIN-VALUES-4", func(a *afterPlan, p *corev1.Pod, _ LeftOut) bool {
		return a.hasMinValues() && a.acceptedHoweverLaunched(p).Node == ""
	}},
	// A node is launched only in domains that take no place from a pod of the plan.
	{"MIN-VALUES-5", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return l.Launch && a.harmlessDomainsHaveTooFewValues(p)
	}},
	// A launch may become another of its offerings, which the pod's spread looks at, or does not.
	{"SPREAD-9", func(a *afterPlan, p *corev1.Pod, _ LeftOut) bool {
		return hasHardSpread(p, isHostname) && a.acceptedHoweverLaunched(p).Node == ""
	}},
	// A pod joins no pods that must be spread over nodes and could not be bound after it.
	{"SPREAD-9", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool { return !l.Launch && a.keepsSpreadPodsOff(p, l.Node) }},
	// A pod that must be spread does not join pods that it would keep off the node if it were bound first.
	{"SPREAD-6", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return !l.Launch && hasHardSpread(p, isDomain) && a.keepsOffWhenFirst(p, l.Node)
	}},
	// A node opens no domain that takes the place from a pod of the plan.
	{"SPREAD-6", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool { return !a.virtual && l.Launch && a.mayTakePlaces(p) }},
	{"BUFFER-2", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool { return a.virtual && l.Launch && a.mayTakePlaces(p) }},
	// No offering is launched for virtual pods when pods of the plan are spread over nodes and must see no emptier one.
	{"BUFFER-2", func(a *afterPlan, p *corev1.Pod, l LeftOut) bool {
		return a.virtual && l.Launch && a.onlyClosedOfferings(p)
	}},
	// DaemonSets of all values of a label that the NodePool leaves open have capacity on each of its nodes.
	{"PLAN-2", func(a *afterPlan, p *corev1.Pod, _ LeftOut) bool {
		withAll := a.judged.afterPlan(a.virtual, a.daemonsOfAllValues)
		defer withAll.close()
		return withAll.accepted(p).Node == ""
	}},
}

// excuse is the first rule that allows it to leave the pod out, or empty.
func (a *afterPlan) excuse(p *corev1.Pod, l LeftOut) string {
	for _, r := range rules {
		if r.holds(a, p, l) {
			return r.id
		}
	}
	return ""
}

// required lists every requirement of the pod's node selector and required node affinity.
func required(p *corev1.Pod) []corev1.NodeSelectorRequirement {
	var out []corev1.NodeSelectorRequirement
	for key, value := range p.Spec.NodeSelector {
		out = append(out, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	for _, t := range requiredTerms(p) {
		out = append(out, t.MatchExpressions...)
	}
	return out
}

func requiredTerms(p *corev1.Pod) []corev1.NodeSelectorTerm {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// byTerm are copies of the pod, each with one of its terms of required node affinity; the pod alone when it
// has none.
func byTerm(p *corev1.Pod) []*corev1.Pod {
	terms := requiredTerms(p)
	if len(terms) == 0 {
		return []*corev1.Pod{p}
	}
	out := make([]*corev1.Pod, len(terms))
	for i, t := range terms {
		out[i] = p.DeepCopy()
		out[i].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{t}
	}
	return out
}

func optsOut(p *corev1.Pod) bool {
	return slices.ContainsFunc(required(p), func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == karpv1.NodePoolLabelKey && r.Operator == corev1.NodeSelectorOpDoesNotExist
	})
}

func unsupported(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(requiredTerms(p), func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
}

func requiresHost(p *corev1.Pod) bool {
	return slices.ContainsFunc(required(p), func(r corev1.NodeSelectorRequirement) bool {
		domain, name, _ := strings.Cut(r.Key, "/")
		own := (domain == "karpenter.sh" || strings.HasSuffix(domain, ".karpenter.sh")) && name != "nodepool" && name != "capacity-type"
		return own || r.Key == corev1.LabelHostname
	})
}

// noZone reports whether the node has none of the labels that name zones and regions.
func (j *judged) noZone(node string) bool {
	return slices.ContainsFunc(j.cluster.Nodes, func(n *corev1.Node) bool {
		_, zone := n.Labels[corev1.LabelTopologyZone]
		_, region := n.Labels[corev1.LabelTopologyRegion]
		return n.Name == node && !zone && !region
	})
}

// zonedVolume reports whether the pod mounts a PersistentVolume with a zone label.
func (j *judged) zonedVolume(p *corev1.Pod) bool {
	return slices.ContainsFunc(j.w.VolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
		return mounts(p, c) && slices.ContainsFunc(j.w.Volumes, func(v *corev1.PersistentVolume) bool {
			return v.Name == c.Spec.VolumeName && v.Labels[corev1.LabelTopologyZone] != ""
		})
	})
}

// emptyDomain reports whether a hard spread of the pod, other than over hostnames, has a domain that no
// node has and that a launch for the pod could open.
func (a *afterPlan) emptyDomain(p *corev1.Pod) bool {
	unspread := p.DeepCopy()
	unspread.Spec.TopologySpreadConstraints = nil
	for _, s := range p.Spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable != corev1.DoNotSchedule || s.TopologyKey == corev1.LabelHostname {
			continue
		}
		there := map[string]bool{}
		for _, n := range a.cluster.Nodes {
			if v, ok := n.Labels[s.TopologyKey]; ok && !a.cluster.Leaving[n.Name] {
				there[v] = true
			}
		}
		for _, c := range a.candidates {
			if v, ok := c.node.Labels[s.TopologyKey]; ok && !there[v] && a.wouldTake(unspread, c) {
				return true
			}
		}
	}
	return false
}

// daemonsOfAllValues are the pods of DaemonSets that start on a node, and, where a NodePool has yet to launch it,
// those that would start if it had another value of a label that the NodePool leaves open.
func (j *judged) daemonsOfAllValues(n *corev1.Node) []judge.Daemon {
	out := j.daemonsOn(n)
	pool := j.w.pool(n.Labels[karpv1.NodePoolLabelKey])
	if pool == nil || slices.ContainsFunc(j.w.Nodes, func(o *corev1.Node) bool { return o.Name == n.Name }) {
		return out
	}
	for i, d := range out {
		if admits(d.Pod, n) {
			continue
		}
		for _, labels := range openLabels(pool) {
			other := n.DeepCopy()
			maps.Copy(other.Labels, labels)
			if admits(d.Pod, other) {
				out[i].Pod = d.Pod.DeepCopy()
				out[i].Pod.Spec.NodeSelector, out[i].Pod.Spec.Affinity = nil, nil
				break
			}
		}
	}
	return out
}

func isHostname(key string) bool { return key == corev1.LabelHostname }

func isDomain(key string) bool { return key != corev1.LabelHostname }

// hasHardSpread reports whether the pod has a hard spread over such a label.
func hasHardSpread(p *corev1.Pod, over func(key string) bool) bool {
	return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable == corev1.DoNotSchedule && over(s.TopologyKey)
	})
}

// mayTakePlaces is takesPlaces for some of the offerings that each launch may become.
func (a *afterPlan) mayTakePlaces(p *corev1.Pod) bool {
	for i := range a.choices() {
		after := a.chosen(i)
		takes := after.takesPlaces(p)
		after.close()
		if takes {
			return true
		}
	}
	return false
}

// takesPlaces reports whether nodes could be launched for the pod, and each keeps some planned pod, bound
// last, off its node. With minValues a node may become each offering that it lists, so those that keep no
// pod off must have enough values without the others.
func (a *afterPlan) takesPlaces(p *corev1.Pod) bool {
	some, harmless := false, map[launchKey][]candidate{}
	for _, c := range a.candidates {
		if !a.wouldTake(p, c) {
			continue
		}
		some = true
		if slices.ContainsFunc(a.judged.cluster.Placed, func(o judge.Placement) bool {
			return !o.Virtual && hasHardSpread(o.Pod, isDomain) && a.keepsOffWhenLast(o, c)
		}) {
			continue
		}
		harmless[c.launch] = append(harmless[c.launch], c)
		if a.w.Settings.RelaxMinValues || unmetMinValues(a.w.pool(c.launch.pool), harmless[c.launch]) == "" {
			return false
		}
	}
	return some
}

// onlyClosedOfferings reports whether nodes for the pod could only be launched, minValues included, with
// offerings of which the NodePool could also launch a node that keeps a planned pod off its own, by that
// pod's spread over the hostname. That node may have other values of labels that the NodePool leaves open.
func (a *afterPlan) onlyClosedOfferings(p *corev1.Pod) bool {
	type poolOffering struct{ pool, instanceType, zone, capacityType string }
	offered := func(c candidate) poolOffering {
		has := c.node.Labels
		return poolOffering{c.launch.pool, has[corev1.LabelInstanceTypeStable], has[corev1.LabelTopologyZone], has[karpv1.CapacityTypeLabelKey]}
	}
	closed, open := map[poolOffering]bool{}, map[launchKey][]candidate{}
	for _, c := range a.candidates {
		closed[offered(c)] = closed[offered(c)] || slices.ContainsFunc(a.judged.cluster.Placed, func(o judge.Placement) bool {
			return !o.Virtual && hasHardSpread(o.Pod, isHostname) && a.keepsOffWhenLast(o, c)
		})
	}
	for _, c := range a.candidates {
		if closed[offered(c)] || !a.wouldTake(p, c) {
			continue
		}
		open[c.launch] = append(open[c.launch], c)
		if a.w.Settings.RelaxMinValues || unmetMinValues(a.w.pool(c.launch.pool), open[c.launch]) == "" {
			return false
		}
	}
	return true
}

// keepsOffWhenLast reports whether the candidate keeps a planned pod off its node that takes it without the
// candidate, when all other pods of the plan are bound.
func (a *afterPlan) keepsOffWhenLast(o judge.Placement, c candidate) bool {
	others := a.without(o)
	s := others.AfterPlan(true)
	defer s.Close()
	if s.Refuses(o.Pod, o.Node) != nil {
		return false
	}
	s.AddNode(c.node)
	return s.Refuses(o.Pod, o.Node) != nil
}

// leavesTooFewValues reports whether the node is a launch that would list too few values for
// minValues if the pod joined it.
func (a *afterPlan) leavesTooFewValues(p *corev1.Pod, node string) bool {
	at := -1
	for i := range a.plan.Launches {
		if launchName(i) == node {
			at = i
		}
	}
	if at < 0 || a.w.Settings.RelaxMinValues {
		return false
	}
	var left []candidate
	for _, ref := range a.plan.Launches[at].Offerings {
		as := newJudged(a.w, a.plan, func(i int, l schedule.Launch) offering.Ref {
			if i == at {
				return ref
			}
			return l.Offerings[0]
		})
		after := as.afterPlan(a.virtual, as.daemonsOn)
		if after.takes(p, node) {
			left = append(left, candidate{node: as.node(node)})
		}
		after.close()
	}
	return unmetMinValues(a.w.pool(a.plan.Launches[at].Pool), left) != ""
}

// eachDomainHasTooFewValues reports whether the node can be launched, or is, for a NodePool with
// minValues that has too few values in each single domain of the rules of all pods.
func (a *afterPlan) eachDomainHasTooFewValues(p *corev1.Pod, l LeftOut) bool {
	keys := a.domainKeys()
	if a.w.Settings.RelaxMinValues || len(keys) == 0 {
		return false
	}
	if l.Launch && !a.needsOneDomain(p) || !l.Launch && !strings.HasPrefix(l.Node, "launch-") {
		return false
	}
	type domain struct {
		launchKey
		values string
	}
	listed := map[domain][]candidate{}
	for _, c := range a.candidates {
		if !a.wouldTake(p, c) {
			continue
		}
		in := domain{launchKey: c.launch}
		for _, key := range keys {
			in.values += c.node.Labels[key] + ","
		}
		if listed[in] = append(listed[in], c); unmetMinValues(a.w.pool(c.launch.pool), listed[in]) == "" {
			return false
		}
	}
	return true
}

func (j *judged) hasMinValues() bool {
	return !j.w.Settings.RelaxMinValues && slices.ContainsFunc(j.w.NodePools, asksForValues)
}

// asksForValues reports whether some requirement of the NodePool has minValues.
func asksForValues(pool *karpv1.NodePool) bool {
	return slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.MinValues != nil })
}

// acceptedHoweverLaunched is accepted for nodes that take the pod whichever of its offerings each launch
// becomes.
func (a *afterPlan) acceptedHoweverLaunched(p *corev1.Pod) LeftOut {
	choices := a.choices()
	takes := map[string]int{} // in how many choices the node takes the pod
	listed := map[launchKey][]candidate{}
	for i := range choices {
		after := a.chosen(i)
		for _, n := range after.cluster.Nodes {
			if !after.cluster.Leaving[n.Name] && after.takes(p, n.Name) {
				takes[n.Name]++
			}
		}
		for _, c := range after.candidates {
			if !after.wouldTake(p, c) {
				continue
			}
			if takes[c.what]++; takes[c.what] == choices {
				listed[c.launch] = append(listed[c.launch], c)
			}
		}
		after.close()
	}
	for _, n := range a.cluster.Nodes {
		if takes[n.Name] == choices {
			return LeftOut{Node: n.Name}
		}
	}
	for in, list := range listed {
		if a.w.Settings.RelaxMinValues || unmetMinValues(a.w.pool(in.pool), list) == "" {
			return LeftOut{Node: list[0].what, Launch: true}
		}
	}
	return LeftOut{}
}

// choices is the number of offerings that a launch of the plan may become.
func (j *judged) choices() int {
	most := 1
	for _, l := range j.plan.Launches {
		most = max(most, len(l.Offerings))
	}
	return most
}

// chosen is the same with each launch as offering i of its list, or as the last. It must be closed.
func (a *afterPlan) chosen(i int) *afterPlan {
	j := newJudged(a.w, a.plan, func(_ int, l schedule.Launch) offering.Ref { return l.Offerings[min(i, len(l.Offerings)-1)] })
	return j.afterPlan(a.virtual, j.daemonsOn)
}

// harmlessDomainsHaveTooFewValues reports whether the pod can only be launched for by NodePools with
// minValues, which have too few values for it without the nodes that would keep a pod of the plan off
// its node.
func (a *afterPlan) harmlessDomainsHaveTooFewValues(p *corev1.Pod) bool {
	if !a.hasMinValues() {
		return false
	}
	listed := map[launchKey][]candidate{}
	for _, c := range a.candidates {
		pool := a.w.pool(c.launch.pool)
		switch {
		case !a.wouldTake(p, c):
			continue
		case !asksForValues(pool):
			return false
		case slices.ContainsFunc(a.judged.cluster.Placed, func(o judge.Placement) bool {
			return (a.virtual || !o.Virtual) && hasHardSpread(o.Pod, isDomain) && a.keepsOffWhenLast(o, c)
		}):
			continue
		}
		if listed[c.launch] = append(listed[c.launch], c); unmetMinValues(pool, listed[c.launch]) == "" {
			return false
		}
	}
	return true
}

// keepsSpreadPodsOff reports whether the pod, bound to the node, would keep one off that the plan puts there and
// that must be spread over nodes, when all other pods of the plan are bound. Real and virtual pods are not
// compared: neither keeps karve from placing the other.
func (a *afterPlan) keepsSpreadPodsOff(p *corev1.Pod, node string) bool {
	return slices.ContainsFunc(a.judged.cluster.Placed, func(o judge.Placement) bool {
		if o.Node != node || o.Virtual != a.virtual || !hasHardSpread(o.Pod, isHostname) {
			return false
		}
		others := a.without(o)
		alone := others.AfterPlan(true)
		defer alone.Close()
		others.Placed = append(others.Placed, judge.Placement{Pod: p, Node: node, Virtual: a.virtual})
		joined := others.AfterPlan(true)
		defer joined.Close()
		return alone.Refuses(o.Pod, node) == nil && joined.Refuses(o.Pod, node) != nil
	})
}

// without is the cluster with what is planned except that pod, and except virtual pods when it is a real one.
func (a *afterPlan) without(o judge.Placement) judge.Cluster {
	c := a.judged.cluster
	c.Placed = slices.DeleteFunc(slices.Clone(c.Placed), func(of judge.Placement) bool { return of.Pod == o.Pod || of.Virtual && !o.Virtual })
	c.Daemons = a.daemons(a.daemonsOn)
	return c
}

// keepsOffWhenFirst reports whether the pod, bound to the node before all pods of the plan, would keep one
// off that the plan puts there and that could be bound first itself.
func (a *afterPlan) keepsOffWhenFirst(p *corev1.Pod, node string) bool {
	before := a.judged.cluster
	before.Placed = nil
	before.Daemons = a.daemons(a.daemonsOn)
	empty := before.AfterPlan(false)
	defer empty.Close()
	before.Placed = []judge.Placement{{Pod: p, Node: node}}
	first := before.AfterPlan(false)
	defer first.Close()
	return slices.ContainsFunc(a.judged.cluster.Placed, func(o judge.Placement) bool {
		return o.Node == node && !o.Virtual && empty.Refuses(o.Pod, node) == nil && first.Refuses(o.Pod, node) != nil
	})
}

// needsOneDomain reports whether the pod is in one topology domain for a spread or affinity of its own,
// for a spread of a pod with a place that counts it, or for one with a place that may have to join it.
func (a *afterPlan) needsOneDomain(p *corev1.Pod) bool {
	for _, o := range a.pods {
		if o != p && !a.placed[string(o.UID)] {
			continue
		}
		if joinsInDomain(o) || o == p && hasHardSpread(p, isDomain) {
			return true
		}
		for _, s := range o.Spec.TopologySpreadConstraints {
			counted, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
			if s.WhenUnsatisfiable == corev1.DoNotSchedule && isDomain(s.TopologyKey) && o.Namespace == p.Namespace && err == nil && counted.Matches(labels.Set(p.Labels)) {
				return true
			}
		}
	}
	return slices.Contains(a.domainKeys(), labelTeam) // only NodePools set it
}

// joinsInDomain reports whether the pod has required pod affinity over a label other than the hostname.
func joinsInDomain(p *corev1.Pod) bool {
	f := p.Spec.Affinity
	return f != nil && f.PodAffinity != nil && slices.ContainsFunc(f.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool { return isDomain(t.TopologyKey) })
}

// domainKeys are the labels, but for the hostname, over which hard spreads and required pod
// affinity or anti-affinity count, and those that say on which nodes the spreads count.
func (j *judged) domainKeys() []string {
	var out []string
	add := func(key string) {
		if key != corev1.LabelHostname && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	for _, p := range slices.Concat(j.w.Pods, slices.Collect(maps.Values(j.pods))) { // chunks of buffers, too
		for _, t := range podTerms(p) {
			add(t.TopologyKey)
		}
		for _, s := range p.Spec.TopologySpreadConstraints {
			if s.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			add(s.TopologyKey)
			for _, r := range required(p) {
				add(r.Key)
			}
		}
	}
	return out
}
