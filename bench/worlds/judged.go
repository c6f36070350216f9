// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// judged is a world with a plan, as the judge sees it.
type judged struct {
	w       *World
	plan    schedule.Plan
	sold    *World            // the same world, its types as NodeOverlays change them
	cluster judge.Cluster     // with the planned pods
	names   map[string]string // of nodes, by the key that karve has for them
	pods    map[string]*corev1.Pod
	virtual map[string]bool // UIDs of the pods that are chunks of capacity buffers
	placed  map[string]bool
	errors  []judge.Rejection // errors of the plan itself
}

// newJudged writes the world and the plan for the judge, each launch as the offering that choose picks.
func newJudged(w *World, plan schedule.Plan, choose func(int, schedule.Launch) offering.Ref) *judged {
	sold := *w
	sold.Types = w.Sold()
	j := &judged{w: w, plan: plan, sold: &sold, names: map[string]string{}, pods: map[string]*corev1.Pod{}, virtual: map[string]bool{}, placed: map[string]bool{}}
	j.cluster.Leaving, j.cluster.Moving, j.cluster.Ended = map[string]bool{}, map[types.UID]bool{}, map[types.UID]*corev1.Pod{}
	j.references()
	j.nodes()
	j.runningPods()
	j.chunks()
	for _, n := range plan.Nominations {
		j.nominate(n)
	}
	for i, l := range plan.Launches {
		j.launch(i, l, choose)
	}
	j.cluster.LastOrders = j.moreOrders
	j.cluster.Daemons = j.daemons(j.daemonsOn)
	j.everyPodOnce()
	j.limits()
	j.quotas()
	return j
}

// moreOrders are random orders for plans that no simple order carries out.
func (j *judged) moreOrders() [][]judge.Placement {
	r := rand.New(rand.NewPCG(3, 4))
	var out [][]judge.Placement
	for range 60 {
		pods := slices.Clone(j.cluster.Placed)
		r.Shuffle(len(pods), func(i, k int) { pods[i], pods[k] = pods[k], pods[i] })
		out = append(out, pods)
	}
	return out
}

// launchName is the name of the i-th launch's node.
func launchName(i int) string { return fmt.Sprintf("launch-%d", i+1) }

// node is the node of that name; nil when there is none.
func (j *judged) node(name string) *corev1.Node {
	for _, n := range j.cluster.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (j *judged) fail(pods []cluster.PodRef, node, format string, args ...any) {
	if len(pods) == 0 {
		pods = []cluster.PodRef{{Name: "no pod"}}
	}
	j.errors = append(j.errors, judge.Rejection{Pod: pods[0], Node: node, Plugin: judge.Plan, Reason: fmt.Sprintf(format, args...)})
}

// references adds the objects that nodes and pods refer to.
func (j *judged) references() {
	c := &j.cluster
	for _, n := range j.w.Namespaces {
		c.Others = append(c.Others, n)
	}
	c.Others = append(c.Others, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ended}})
	for _, s := range j.w.StorageClasses {
		c.Others = append(c.Others, s)
	}
	for _, v := range j.w.Volumes {
		c.Others = append(c.Others, v)
	}
	for _, v := range j.w.VolumeClaims {
		c.Others = append(c.Others, v)
		leftover := v.DeepCopy()
		leftover.Namespace = ended
		c.Others = append(c.Others, leftover)
	}
}

// ended is the namespace of what terminating pods leave behind until their room is free; no
// selector that names a namespace finds them there.
const ended = "ended"

// nodes adds the nodes that exist and those in flight, as they will be once they are initialized.
func (j *judged) nodes() {
	for _, n := range j.w.Nodes {
		claim := j.w.claimOf(n)
		out := n.DeepCopy()
		if claim != nil {
			j.names[claim.Name] = n.Name
		} else {
			j.names[n.Name] = n.Name
		}
		if claim != nil && n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			j.initialize(out, claim)
		}
		j.addNode(out, leaving(n, claim))
		j.attachLimits(n)
	}
	for _, c := range j.w.NodeClaims {
		if j.w.nodeOf(c) == nil {
			n, csi := j.inFlight(c)
			j.names[c.Name] = n.Name
			j.addNode(n, leaving(nil, c))
			j.cluster.Others = append(j.cluster.Others, csi)
		}
	}
}

func (j *judged) addNode(n *corev1.Node, leaving bool) {
	if leaving {
		j.cluster.Leaving[n.Name] = true
		n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&cordon) }) {
		n.Spec.Taints = append(n.Spec.Taints, cordon) // the node controller adds it a moment later
	}
	n.DeletionTimestamp = nil
	j.cluster.Nodes = append(j.cluster.Nodes, n)
}

// initialize makes a node what it will be: registration copies the NodeClaim's labels, startup taints
// and those of a starting node go, and the kubelet reports what the claim says.
func (j *judged) initialize(n *corev1.Node, c *karpv1.NodeClaim) {
	if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
		labels := map[string]string{}
		maps.Copy(labels, n.Labels)
		maps.Copy(labels, c.Labels)
		n.Labels = labels
		n.Spec.Taints = slices.Clone(c.Spec.Taints)
	}
	n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == karpv1.UnregisteredTaintKey ||
			slices.ContainsFunc(c.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) })
	})
	allocatable := n.Status.Allocatable.DeepCopy()
	if allocatable == nil {
		allocatable = corev1.ResourceList{}
	}
	for name, q := range c.Status.Allocatable {
		if had, ok := allocatable[name]; !ok || had.IsZero() {
			allocatable[name] = q
		}
	}
	n.Status.Allocatable = allocatable
}

// attachLimits adds the CSINode of a Node: the real one, or one with the limits of its type that
// the driver will report.
func (j *judged) attachLimits(n *corev1.Node) {
	if i := slices.IndexFunc(j.w.CSINodes, func(c *storagev1.CSINode) bool { return c.Name == n.Name }); i >= 0 {
		j.cluster.Others = append(j.cluster.Others, j.w.CSINodes[i])
		return
	}
	room := quantity.Amounts{}
	if c := j.w.claimOf(n); c != nil {
		if t, _ := j.sold.offering(c.Labels[corev1.LabelInstanceTypeStable], "", ""); t != nil {
			room = j.attachable(t)
		}
	}
	_, csi := judge.NewNode(n.Name, nil, nil, room)
	j.cluster.Others = append(j.cluster.Others, csi)
}

// attachable is the capacity of a type, with attach limits as low as any node of that type reports.
func (j *judged) attachable(t *offering.InstanceType) quantity.Amounts {
	out := maps.Clone(t.Capacity)
	for _, n := range j.w.Nodes {
		if n.Labels[corev1.LabelInstanceTypeStable] != t.Name {
			continue
		}
		for _, c := range j.w.CSINodes {
			if c.Name != n.Name {
				continue
			}
			for _, d := range c.Spec.Drivers {
				if had, ok := out[quantity.Attachable+d.Name]; ok && d.Allocatable != nil && d.Allocatable.Count != nil {
					out[quantity.Attachable+d.Name] = min(had, int64(*d.Allocatable.Count))
				}
			}
		}
	}
	return out
}

// inFlight is the node that a NodeClaim becomes. Its requirements leave one offering.
func (j *judged) inFlight(c *karpv1.NodeClaim) (*corev1.Node, *storagev1.CSINode) {
	one := singleValues(c)
	t, o := j.sold.offering(one[corev1.LabelInstanceTypeStable], one[corev1.LabelTopologyZone], one[karpv1.CapacityTypeLabelKey])
	name := "node-of-" + c.Name
	if t == nil || o == nil {
		n, csi := judge.NewNode(name, maps.Clone(c.Labels), c.Spec.Taints, nil)
		n.Status.Allocatable = c.Status.Allocatable
		return n, csi
	}
	labels := judge.LaunchedLabels(t, o, c.Labels, schedule.Launch{Pool: c.Labels[karpv1.NodePoolLabelKey]})
	labels[corev1.LabelHostname] = name
	n, csi := judge.NewNode(name, labels, slices.Clone(c.Spec.Taints), j.attachable(t).Sub(t.Overhead))
	if c.Status.Allocatable != nil {
		n.Status.Allocatable = c.Status.Allocatable
	}
	return n, csi
}

// seen is the pod as the judge sees it: no namespace selector finds what ended pods leave behind, in
// the only namespace that lacks the label with its name. That label also keeps kube-scheduler 1.36 from
// reading a selector that nothing meets but the absence of labels (such as DoesNotExist) as every
// namespace: its plugin InterPodAffinity forgets, in a copy, that it has looked up the namespaces.
func seen(p *corev1.Pod) *corev1.Pod {
	a := p.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return p
	}
	p = p.DeepCopy()
	narrow := func(terms []corev1.PodAffinityTerm) {
		for i := range terms {
			if s := terms[i].NamespaceSelector; s != nil {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpExists})
			}
		}
	}
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		narrow(a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		narrow(a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return p
}

// runningPods adds the bound pods, and lists those that the plan must mention.
func (j *judged) runningPods() {
	for _, p := range j.w.Pods {
		p = seen(p)
		if p.Spec.NodeName == "" {
			if waits(p) {
				j.pods[string(p.UID)] = p
			}
			continue
		}
		if finished(p) {
			continue
		}
		j.cluster.Bound = append(j.cluster.Bound, p)
		if j.cluster.Leaving[p.Spec.NodeName] && leaves(p) {
			j.cluster.Moving[p.UID] = true
			again := p.DeepCopy()
			again.Spec.NodeName, again.DeletionTimestamp = "", nil
			j.pods[string(p.UID)] = again
		} else if p.DeletionTimestamp != nil {
			left := p.DeepCopy()
			left.Namespace, left.Labels, left.Spec.Affinity, left.Spec.TopologySpreadConstraints = ended, nil, nil, nil
			j.cluster.Ended[p.UID] = left
		}
	}
}

// chunks lists the pods that stand for the capacity of buffers: the plan must mention them, too.
func (j *judged) chunks() {
	for _, b := range j.w.Buffers {
		for _, p := range b.pods() {
			j.pods[string(p.UID)], j.virtual[string(p.UID)] = seen(p), true
		}
	}
}

func (j *judged) nominate(n schedule.Nomination) {
	name, ok := j.names[n.Node]
	switch {
	case !ok:
		j.fail(n.Pods, n.Node, "there is no such node")
	case j.cluster.Leaving[name]:
		j.fail(n.Pods, n.Node, "the node is being deleted")
	default:
		j.place(n.Pods, name)
	}
}

func (j *judged) place(pods []cluster.PodRef, node string) {
	for i, ref := range pods {
		p := j.pods[ref.UID]
		if p == nil {
			j.fail(pods[i:], node, "the pod does not wait for a node")
			continue
		}
		if j.placed[ref.UID] {
			j.fail(pods[i:], node, "the pod is planned twice")
			continue
		}
		j.placed[ref.UID] = true
		j.cluster.Placed = append(j.cluster.Placed, judge.Placement{Pod: p, Node: node, Turn: i, Moves: j.cluster.Moving[p.UID], Virtual: j.virtual[ref.UID]})
	}
}

func (j *judged) launch(i int, l schedule.Launch, choose func(int, schedule.Launch) offering.Ref) {
	name := launchName(i)
	pool := j.w.pool(l.Pool)
	switch {
	case pool == nil || !launches(pool):
		j.fail(l.Pods, name, "NodePool %s launches nothing", l.Pool)
		return
	case len(l.Offerings) == 0:
		j.fail(l.Pods, name, "the launch has no offerings")
		return
	}
	chosen := choose(i, l)
	if no := j.unmetMinValues(pool, l); no != "" {
		j.fail(l.Pods, name, "the launch has too few values of %s", no)
	}
	for _, ref := range l.Offerings {
		t, o := j.sold.offering(ref.Type, ref.Zone, ref.CapacityType)
		if o == nil || o.Unavailable != "" || o.Price != ref.Price {
			j.fail(l.Pods, name, "%v is not for sale", ref)
			return
		}
		n, csi := j.newNode(name, pool, t, o, l)
		if no := unmet(pool, n); no != "" {
			j.fail(l.Pods, name, "%v does not meet requirement %s of NodePool %s", ref, no, l.Pool)
		}
		if ref == chosen {
			j.cluster.Nodes = append(j.cluster.Nodes, n)
			j.cluster.Others = append(j.cluster.Others, csi)
		}
	}
	j.place(l.Pods, name)
}

// newNode is the node that a NodePool launches with that offering.
func (j *judged) newNode(name string, pool *karpv1.NodePool, t *offering.InstanceType, o *offering.Offering, l schedule.Launch) (*corev1.Node, *storagev1.CSINode) {
	labels := judge.LaunchedLabels(t, o, templateLabels(pool), l)
	labels[corev1.LabelHostname] = name
	return judge.NewNode(name, labels, slices.Clone(pool.Spec.Template.Spec.Taints), j.attachable(t).Sub(t.Overhead))
}

// launches reports whether a NodePool launches nodes for pending pods.
func launches(p *karpv1.NodePool) bool {
	return p.DeletionTimestamp == nil && p.Spec.Replicas == nil && len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Status == metav1.ConditionTrue
}

// daemons are the pods that DaemonSets will start on nodes that stay.
func (j *judged) daemons(on func(*corev1.Node) []judge.Daemon) []judge.Daemon {
	var out []judge.Daemon
	for _, n := range j.cluster.Nodes {
		if !j.cluster.Leaving[n.Name] {
			out = append(out, on(n)...)
		}
	}
	return out
}

// daemonsOn are the pods of DaemonSets that may yet start on the node.
func (j *judged) daemonsOn(n *corev1.Node) []judge.Daemon {
	var out []judge.Daemon
	for _, d := range j.w.DaemonSets {
		if slices.ContainsFunc(j.cluster.Bound, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == n.Name && owner(p, "DaemonSet") == string(d.UID)
		}) {
			continue
		}
		p := daemonPod(d, n.Name)
		out = append(out, judge.Daemon{Pod: p, Node: n.Name, PortHolder: portHolder(p)})
	}
	return out
}

// portHolder is a pod that takes nothing but the host ports of p; nil when there are none.
func portHolder(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ended, Name: "ports-of-" + p.Name, UID: "ports-of-" + p.UID}}
	out.Spec.Containers = []corev1.Container{{Name: "main"}}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out.Spec.Containers[0].Ports = append(out.Spec.Containers[0].Ports, port)
			}
		}
	}
	if len(out.Spec.Containers[0].Ports) == 0 {
		return nil
	}
	return out
}

// everyPodOnce: each pod that needs a node is in the plan once, and no other pod is.
func (j *judged) everyPodOnce() {
	count := map[string]int{}
	note := func(pods []cluster.PodRef) {
		for _, p := range pods {
			count[p.UID]++
			if j.pods[p.UID] == nil {
				j.fail([]cluster.PodRef{p}, "", "the plan has a pod that needs no node")
			}
		}
	}
	for _, n := range j.plan.Nominations {
		note(n.Pods)
	}
	for _, l := range j.plan.Launches {
		note(l.Pods)
	}
	for _, u := range j.plan.Unplaced {
		note(u.Pods)
	}
	for _, uid := range slices.Sorted(maps.Keys(j.pods)) {
		if n := count[uid]; n != 1 {
			j.fail([]cluster.PodRef{{Name: j.pods[uid].Name, UID: uid}}, "", "the pod is in the plan %d times", n)
		}
	}
}

// limits: no NodePool for which the plan launches exceeds its limits, whichever offerings it gets.
func (j *judged) limits() {
	for _, pool := range j.w.NodePools {
		launched := false
		for _, l := range j.plan.Launches {
			launched = launched || l.Pool == pool.Name
		}
		if !launched {
			continue
		}
		left := j.limitsLeft(pool)
		for _, name := range slices.Sorted(maps.Keys(left)) {
			if left[name] < 0 {
				j.fail(nil, pool.Name, "NodePool %s exceeds its limit on %s by %d", pool.Name, name, -left[name])
			}
		}
	}
}

// limitsLeft is what the plan leaves of a NodePool's limits, in base units (milli-cores, bytes).
func (j *judged) limitsLeft(pool *karpv1.NodePool) map[string]int64 {
	left := map[string]int64{}
	maps.Copy(left, amounts(corev1.ResourceList(pool.Spec.Limits)))
	take := func(capacity map[string]int64) {
		for name := range left {
			if name == "nodes" {
				left[name]--
			} else {
				left[name] -= capacity[name]
			}
		}
	}
	for _, n := range j.w.Nodes {
		if c := j.w.claimOf(n); c != nil && c.Labels[karpv1.NodePoolLabelKey] == pool.Name {
			take(amounts(either(n.Status.Capacity, c.Status.Capacity)))
		}
	}
	for _, c := range j.w.NodeClaims {
		if j.w.nodeOf(c) != nil || c.Labels[karpv1.NodePoolLabelKey] != pool.Name {
			continue
		}
		capacity := amounts(c.Status.Capacity)
		if len(capacity) == 0 {
			for _, r := range c.Spec.Requirements {
				if r.Key != corev1.LabelInstanceTypeStable || len(r.Values) == 0 {
					continue
				}
				if t, _ := j.sold.offering(r.Values[0], "", ""); t != nil {
					capacity = t.Capacity
				}
			}
		}
		take(capacity)
	}
	for _, l := range j.plan.Launches {
		if l.Pool == pool.Name {
			take(j.largest(l))
		}
	}
	return left
}

// largest is the largest capacity that a launch may get, resource by resource.
func (j *judged) largest(l schedule.Launch) map[string]int64 {
	out := map[string]int64{}
	for _, ref := range l.Offerings {
		if t, _ := j.sold.offering(ref.Type, "", ""); t != nil {
			for name, n := range t.Capacity {
				out[name] = max(out[name], n)
			}
		}
	}
	return out
}

func either(a, b corev1.ResourceList) corev1.ResourceList {
	if len(a) > 0 {
		return a
	}
	return b
}

func amounts(in corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range in {
		out[string(name)] = units(name, q.MilliValue())
	}
	return out
}

func units(name corev1.ResourceName, milli int64) int64 {
	if name == corev1.ResourceCPU {
		return milli
	}
	return milli / 1000
}

// unmet is the first requirement of the NodePool that the node does not meet, or empty.
func unmet(pool *karpv1.NodePool, n *corev1.Node) string {
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if !meets(r.Key, r.Operator, r.Values, n.Labels) {
			return fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))
		}
	}
	return ""
}
