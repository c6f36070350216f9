// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// cluster is what has been seen of Kubernetes: what exists, and for a while what is gone.
type cluster struct {
	claims map[types.UID]*claim
	nodes  map[types.UID]*node
	pods   map[types.UID]*pod
	pools  map[string]*pool              // by name
	pdbs   map[string]map[types.UID]*pdb // by namespace; those that exist

	// By name, the one that was seen last, which may be gone. Of pods it is namespace/name.
	claimsByName map[string]*claim
	nodesByName  map[string]*node
	podsByName   map[string]*pod
	// Those that exist.
	claimsByID map[string]map[types.UID]*claim // by the key of the provider ID
	podsByNode map[string]map[types.UID]*pod

	// unclaimed is when karve said last of a Node that its NodeClaim is missing: it drains the Node.
	unclaimed map[types.UID]time.Time
}

const (
	eventUnclaimed = "NodeClaimMissing"
	// unclaimedSaid is how long that holds; karve says it every ten minutes.
	unclaimedSaid = 15 * time.Minute
)

// event records what karve said about an object.
func (c *cluster) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && e.InvolvedObject.Kind == "Node" && e.Reason == eventUnclaimed {
		c.unclaimed[e.InvolvedObject.UID] = at
	}
}

// saysUnclaimed reports whether karve says of a Node that its NodeClaim is missing.
func (c *cluster) saysUnclaimed(at time.Time, node types.UID) bool {
	said, yes := c.unclaimed[node]
	return yes && at.Sub(said) < unclaimedSaid
}

func newCluster() *cluster {
	return &cluster{
		claims: map[types.UID]*claim{}, nodes: map[types.UID]*node{}, pods: map[types.UID]*pod{}, pools: map[string]*pool{},
		pdbs:         map[string]map[types.UID]*pdb{},
		claimsByName: map[string]*claim{}, nodesByName: map[string]*node{}, podsByName: map[string]*pod{},
		claimsByID: map[string]map[types.UID]*claim{}, podsByNode: map[string]map[types.UID]*pod{},
		unclaimed: map[types.UID]time.Time{},
	}
}

// times are when an object was seen first, being deleted, and gone; zero while it was not.
type times struct{ seen, deleted, gone time.Time }

func (t *times) observe(at time.Time, is metav1.Object) {
	if t.seen.IsZero() {
		t.seen = at
	}
	t.gone = time.Time{}
	if is.GetDeletionTimestamp() == nil {
		t.deleted = time.Time{}
	} else if t.deleted.IsZero() {
		t.deleted = at
	}
}

func (t *times) leave(at time.Time) {
	t.gone = at
	if t.deleted.IsZero() {
		t.deleted = at
	}
}

func (t *times) lives() bool { return t.gone.IsZero() }

// claim is a NodeClaim as it was seen last.
type claim struct {
	*karpv1.NodeClaim
	times
	initialized time.Time // when it was first seen to be
	terminating time.Time // when its VM was first seen to be
}

func (c *claim) name() string { return "nodeclaim/" + c.Name }

func (c *claim) pool() string { return c.Labels[karpv1.NodePoolLabelKey] }

// says reports whether a condition of the NodeClaim is True.
func (c *claim) says(condition string) bool {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == condition {
			return c.Status.Conditions[i].Status == metav1.ConditionTrue
		}
	}
	return false
}

// reason is the reason of a condition, True or not.
func (c *claim) reason(condition string) string {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == condition {
			return c.Status.Conditions[i].Reason
		}
	}
	return ""
}

// node is a Node as it was seen last.
type node struct {
	*corev1.Node
	times
	readySince, notReadySince time.Time // one of them is zero
	tainted                   time.Time // since when it has karve's taint
}

func (n *node) name() string { return "node/" + n.Name }

// managed reports whether the Node says that karve launched it.
func (n *node) managed() bool { return n.Labels[karpv1.NodePoolLabelKey] != "" }

func disrupted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// pod is a Pod as it was seen last.
type pod struct {
	*corev1.Pod
	times
}

func (p *pod) name() string { return "pod/" + p.Namespace + "/" + p.Name }

// ended reports whether the pod's containers will not run again.
func (p *pod) ended() bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (p *pod) grace() time.Duration {
	if p.Spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
}

// ownedBy reports whether the pod's controller is of that kind.
func (p *pod) ownedBy(kind string) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.Kind == kind
	})
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// pool is a NodePool, with what its spec was.
type pool struct {
	*karpv1.NodePool
	times
	specs timeline[*karpv1.NodePoolSpec]
}

// pdb is a PodDisruptionBudget, with what its status was.
type pdb struct {
	*policyv1.PodDisruptionBudget
	times
	statuses timeline[*policyv1.PodDisruptionBudgetStatus]
}

func (b *pdb) name() string { return "poddisruptionbudget/" + b.Namespace + "/" + b.Name }

// selects reports whether the budget is about the pod. An empty selector selects every pod of the
// namespace, a missing one none.
func (b *pdb) selects(p *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(p.Labels))
}

func (c *cluster) setClaim(at time.Time, is *karpv1.NodeClaim) *claim {
	x := c.claims[is.UID]
	if x == nil {
		x = &claim{}
		c.claims[is.UID] = x
	}
	if x.NodeClaim != nil {
		c.unlinkClaim(x)
	}
	x.NodeClaim = is
	x.observe(at, is)
	c.claimsByName[is.Name] = x
	if id := resourceKey(is.Status.ProviderID); id != "" {
		if c.claimsByID[id] == nil {
			c.claimsByID[id] = map[types.UID]*claim{}
		}
		c.claimsByID[id][is.UID] = x
	}
	if x.initialized.IsZero() && x.says(karpv1.ConditionTypeInitialized) {
		x.initialized = at
	}
	if x.terminating.IsZero() && x.says(karpv1.ConditionTypeInstanceTerminating) {
		x.terminating = at
	}
	return x
}

func (c *cluster) unlinkClaim(x *claim) {
	id := resourceKey(x.Status.ProviderID)
	delete(c.claimsByID[id], x.UID)
	if len(c.claimsByID[id]) == 0 {
		delete(c.claimsByID, id)
	}
}

func (c *cluster) removeClaim(at time.Time, was *karpv1.NodeClaim) *claim {
	x := c.claims[was.UID]
	if x == nil {
		x = c.setClaim(at, was)
	}
	c.unlinkClaim(x)
	x.leave(at)
	return x
}

func (c *cluster) setNode(at time.Time, is *corev1.Node) *node {
	x := c.nodes[is.UID]
	if x == nil {
		x = &node{}
		c.nodes[is.UID] = x
	}
	x.Node = is
	x.observe(at, is)
	c.nodesByName[is.Name] = x
	switch isReady := ready(is); {
	case isReady && x.readySince.IsZero():
		x.readySince, x.notReadySince = at, time.Time{}
	case !isReady && x.notReadySince.IsZero():
		x.readySince, x.notReadySince = time.Time{}, at
	}
	switch isTainted := disrupted(is); {
	case isTainted && x.tainted.IsZero():
		x.tainted = at
	case !isTainted:
		x.tainted = time.Time{}
	}
	return x
}

func (c *cluster) removeNode(at time.Time, was *corev1.Node) *node {
	x := c.nodes[was.UID]
	if x == nil {
		x = c.setNode(at, was)
	}
	x.leave(at)
	return x
}

func (c *cluster) setPod(at time.Time, is *corev1.Pod) *pod {
	x := c.pods[is.UID]
	if x == nil {
		x = &pod{}
		c.pods[is.UID] = x
	}
	x.Pod = is
	x.observe(at, is)
	c.podsByName[is.Namespace+"/"+is.Name] = x
	if name := is.Spec.NodeName; name != "" {
		if c.podsByNode[name] == nil {
			c.podsByNode[name] = map[types.UID]*pod{}
		}
		c.podsByNode[name][is.UID] = x
	}
	return x
}

func (c *cluster) removePod(at time.Time, was *corev1.Pod) *pod {
	x := c.pods[was.UID]
	if x == nil {
		x = c.setPod(at, was)
	}
	delete(c.podsByNode[x.Spec.NodeName], was.UID)
	if len(c.podsByNode[x.Spec.NodeName]) == 0 {
		delete(c.podsByNode, x.Spec.NodeName)
	}
	x.leave(at)
	return x
}

func (c *cluster) setPDB(at time.Time, was, is *policyv1.PodDisruptionBudget, horizon time.Duration) *pdb {
	of := is
	if of == nil {
		of = was
	}
	x := c.pdbs[of.Namespace][of.UID]
	if x == nil {
		x = &pdb{}
	}
	if x.PodDisruptionBudget = of; is == nil {
		x.leave(at)
		delete(c.pdbs[of.Namespace], of.UID)
		if len(c.pdbs[of.Namespace]) == 0 {
			delete(c.pdbs, of.Namespace)
		}
		return x
	}
	x.observe(at, is)
	x.statuses.set(at, &is.Status, horizon)
	if c.pdbs[of.Namespace] == nil {
		c.pdbs[of.Namespace] = map[types.UID]*pdb{}
	}
	c.pdbs[of.Namespace][of.UID] = x
	return x
}

// claimOf is the NodeClaim of a Node; nil when there is none. Of several the one that was seen first.
func (c *cluster) claimOf(n *node) *claim {
	var of *claim
	for _, x := range c.claimsByID[resourceKey(n.Spec.ProviderID)] {
		if of == nil || x.seen.Before(of.seen) || x.seen.Equal(of.seen) && x.Name < of.Name {
			of = x
		}
	}
	return of
}

// waitedFor are the pods for which a drain of the node waits.
func (c *cluster) waitedFor(name string) []*pod {
	var out []*pod
	for _, p := range c.podsByNode[name] {
		static := p.Annotations[corev1.MirrorPodAnnotationKey] != ""
		if !p.ended() && !static && !p.ownedBy("DaemonSet") && !toleratesDisruption(p.Pod) {
			out = append(out, p)
		}
	}
	return out
}

func toleratesDisruption(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		effect := t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule
		all := t.Key == "" && t.Operator == corev1.TolerationOpExists
		return effect && (all || t.Key == karpv1.DisruptedTaintKey && (t.Operator == corev1.TolerationOpExists || t.Value == ""))
	})
}

// forget forgets what has been gone since before the horizon; pods, of which there are many, have one of
// their own.
func (c *cluster) forget(horizon, podHorizon time.Time) {
	old := func(t times) bool { return !t.gone.IsZero() && t.gone.Before(horizon) }
	oldPod := func(t times) bool { return !t.gone.IsZero() && t.gone.Before(podHorizon) }
	maps.DeleteFunc(c.claims, func(_ types.UID, x *claim) bool { return old(x.times) })
	maps.DeleteFunc(c.nodes, func(_ types.UID, x *node) bool { return old(x.times) })
	maps.DeleteFunc(c.unclaimed, func(uid types.UID, _ time.Time) bool { return c.nodes[uid] == nil })
	maps.DeleteFunc(c.pods, func(_ types.UID, x *pod) bool { return oldPod(x.times) })
	maps.DeleteFunc(c.pools, func(_ string, x *pool) bool { return old(x.times) })
	maps.DeleteFunc(c.claimsByName, func(_ string, x *claim) bool { return old(x.times) })
	maps.DeleteFunc(c.nodesByName, func(_ string, x *node) bool { return old(x.times) })
	maps.DeleteFunc(c.podsByName, func(_ string, x *pod) bool { return oldPod(x.times) })
}
