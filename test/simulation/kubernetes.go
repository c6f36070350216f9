// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator"
)

// tick is how often what stands around karve looks at the cluster.
const tick = 2 * time.Second

// kubernetesControllers do what a cluster does without karve: the scheduler, the controllers of ReplicaSets, of
// PodDisruptionBudgets, of the lives of Nodes and of owners, and the kubelets. It sees all objects as
// they are, and writes as any client does.
type kubernetesControllers struct {
	client  client.Client
	objects *objects
	azure   *azureemulator.Server
	random  *rand.Rand
	fail    func(format string, args ...any)
	// now is the API server's clock: the controllers of a cluster run beside it.
	now func() time.Time
	// kubelets may be ill.
	kubelets *kubelets
	// startupTaintStays: nobody takes startupTaint off new Nodes.
	startupTaintStays atomic.Bool

	// ends is when a pod that was asked to end does, and starts when one that was bound is ready.
	ends   map[types.UID]ending
	starts map[types.UID]time.Time
	// readyAt is when a Node becomes ready, by UID; a kubelet that reports nothing has none.
	readyAt map[types.UID]time.Time
	// lastSeen is when a Node's kubelet was last alive.
	lastSeen map[types.UID]time.Time
}

// ending is a pod that was asked to end: when it does, and within which grace, in seconds.
type ending struct {
	at    time.Time
	grace int64
}

// startupTaint keeps pods off new Nodes of pools that have it; an agent takes it off after agentTakes.
const (
	startupTaint = "example.com/agent-not-ready"
	agentTakes   = 15 * time.Second
)

func (k *kubernetesControllers) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.collectOwned(ctx)
		k.replicate(ctx)
		k.runDaemons(ctx)
		k.nodeLives(ctx)
		k.schedule(ctx)
		k.runPods(ctx)
		k.countBudgets(ctx)
		sleep(ctx, tick)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// try makes a write of which it is known that it may come too late, or meet a fault.
func (k *kubernetesControllers) try(what string, err error) bool {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !passes(err) {
		k.fail("%s: %v", what, err)
	}
	return err == nil
}

// passes reports whether an error is one of the API server's bad moments.
func passes(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsForbidden(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// patch changes an object's main part, or its status.
func (k *kubernetesControllers) patch(ctx context.Context, o, changed client.Object, status bool) bool {
	p := client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})
	if status {
		return k.try("changing the status of "+o.GetName(), k.client.Status().Patch(ctx, changed, p))
	}
	return k.try("changing "+o.GetName(), k.client.Patch(ctx, changed, p))
}

// collectOwned deletes what has lost its owner.
func (k *kubernetesControllers) collectOwned(ctx context.Context) {
	owners := map[types.UID]bool{}
	for _, s := range k.objects.replicaSets() {
		owners[s.UID] = true
	}
	for _, d := range all[*appsv1.DaemonSet](k.objects, "DaemonSet") {
		owners[d.UID] = true
	}
	for _, c := range k.objects.claims() {
		owners[c.UID] = true
	}
	for _, p := range k.objects.pools() {
		owners[p.UID] = true
	}
	collect := func(o client.Object) {
		if o.GetDeletionTimestamp() != nil {
			return
		}
		for _, owner := range o.GetOwnerReferences() {
			if owners[owner.UID] {
				return
			}
		}
		if len(o.GetOwnerReferences()) > 0 {
			uid := o.GetUID()
			k.try("collecting "+o.GetName(), k.client.Delete(ctx, o, client.Preconditions{UID: &uid}))
		}
	}
	for _, p := range k.objects.pods() {
		collect(p)
	}
	for _, c := range k.objects.claims() {
		collect(c)
	}
	for _, n := range k.objects.nodes() {
		collect(n)
	}
}

// replicate has each ReplicaSet have as many pods as it wants.
func (k *kubernetesControllers) replicate(ctx context.Context) {
	pods := map[types.UID][]*corev1.Pod{}
	for _, p := range k.objects.pods() {
		if owner := metav1.GetControllerOf(p); owner != nil && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods[owner.UID] = append(pods[owner.UID], p)
		}
	}
	for _, s := range k.objects.replicaSets() {
		have, want := pods[s.UID], int(*s.Spec.Replicas)
		for range min(want-len(have), 20) { // the real one begins slowly and doubles
			k.try("creating a pod of "+s.Name, k.client.Create(ctx, podOf(s)))
		}
		// Pods that do not run go first.
		slices.SortStableFunc(have, func(a, b *corev1.Pod) int { return phaseRank(a) - phaseRank(b) })
		for i := range len(have) - want {
			k.try("deleting a pod of "+s.Name, k.client.Delete(ctx, have[i]))
		}
		if s.Status.Replicas != int32(len(have)) {
			changed := s.DeepCopy()
			changed.Status.Replicas, changed.Status.ObservedGeneration = int32(len(have)), s.Generation
			k.patch(ctx, s, changed, true)
		}
	}
}

func phaseRank(p *corev1.Pod) int {
	switch {
	case p.Spec.NodeName == "":
		return 0
	case p.Status.Phase != corev1.PodRunning:
		return 1
	}
	return 2
}

func podOf(s *appsv1.ReplicaSet) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *s.Spec.Template.ObjectMeta.DeepCopy(), Spec: *s.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.GenerateName = s.Namespace, s.Name+"-"
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	return p
}

// silence is how long a kubelet says nothing until its Node is not known to be ready, and unreachable
// how long its pods are left on it then.
const (
	silence     = 50 * time.Second
	unreachable = 5 * time.Minute
)

// nodeLives is the kubelets' word about their Nodes, and what is made of their silence.
func (k *kubernetesControllers) nodeLives(ctx context.Context) {
	for _, n := range k.objects.nodes() {
		_, power, found := k.azure.VMs.Find(n.Name)
		talks, wellYet := k.kubelets.says(n.Name)
		alive := found && power == "running" && talks
		if _, known := k.readyAt[n.UID]; !known {
			k.readyAt[n.UID] = time.Now().Add(5*time.Second + time.Duration(k.random.Int64N(int64(40*time.Second))))
			k.lastSeen[n.UID] = time.Now()
		}
		if alive {
			k.lastSeen[n.UID] = time.Now()
		}
		ready := conditionOf(n.Status.Conditions, corev1.NodeReady)
		switch {
		case alive && !wellYet:
			if ready == nil || ready.Status != corev1.ConditionFalse {
				k.setReady(ctx, n, corev1.ConditionFalse)
			}
		case alive && time.Now().After(k.readyAt[n.UID]) && (ready == nil || ready.Status != corev1.ConditionTrue):
			k.setReady(ctx, n, corev1.ConditionTrue)
		case !alive && ago(k.lastSeen[n.UID]) > silence && (ready == nil || ready.Status != corev1.ConditionUnknown):
			k.setReady(ctx, n, corev1.ConditionUnknown)
		}
		k.taintUnready(ctx, n)
		k.takeStartupTaint(ctx, n)
	}
	k.forgetNodes()
}

func (k *kubernetesControllers) forgetNodes() {
	there := map[types.UID]bool{}
	for _, n := range k.objects.nodes() {
		there[n.UID] = true
	}
	for uid := range k.readyAt {
		if !there[uid] {
			delete(k.readyAt, uid)
			delete(k.lastSeen, uid)
		}
	}
}

func conditionOf(all []corev1.NodeCondition, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range all {
		if all[i].Type == t {
			return &all[i]
		}
	}
	return nil
}

func (k *kubernetesControllers) setReady(ctx context.Context, n *corev1.Node, status corev1.ConditionStatus) {
	changed, now := n.DeepCopy(), k.kubelets.now()
	set := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: now, LastHeartbeatTime: now, Reason: "Simulated"}
	if c := conditionOf(changed.Status.Conditions, corev1.NodeReady); c != nil {
		*c = set
	} else {
		changed.Status.Conditions = append(changed.Status.Conditions, set)
	}
	k.patch(ctx, n, changed, true)
}

// taintUnready keeps the taints of the node lifecycle controller in step with the condition.
func (k *kubernetesControllers) taintUnready(ctx context.Context, n *corev1.Node) {
	var want []corev1.Taint
	if c := conditionOf(n.Status.Conditions, corev1.NodeReady); c != nil {
		switch c.Status {
		case corev1.ConditionFalse:
			want = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}
		case corev1.ConditionUnknown:
			want = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
		}
	}
	isOurs := func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	}
	changed := n.DeepCopy()
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, func(t corev1.Taint) bool {
		return isOurs(t) && !slices.ContainsFunc(want, func(w corev1.Taint) bool { return t.Key == w.Key && t.Effect == w.Effect })
	})
	for _, w := range want {
		if !slices.ContainsFunc(changed.Spec.Taints, func(t corev1.Taint) bool { return t.Key == w.Key && t.Effect == w.Effect }) {
			at := metav1.NewTime(k.now())
			w.TimeAdded = &at
			changed.Spec.Taints = append(changed.Spec.Taints, w)
		}
	}
	if len(changed.Spec.Taints) != len(n.Spec.Taints) {
		k.patch(ctx, n, changed, false)
	}
}

// schedule binds pods to nodes that have room for them, to the emptiest first.
func (k *kubernetesControllers) schedule(ctx context.Context) {
	pods, free := k.objects.pods(), map[string]*room{}
	for _, n := range k.objects.nodes() {
		if !n.Spec.Unschedulable && n.DeletionTimestamp == nil {
			free[n.Name] = newRoom(n)
		}
	}
	for _, p := range pods {
		if r := free[p.Spec.NodeName]; r != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			r.take(p)
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		best := k.choose(p, free)
		if best == nil {
			k.reportUnschedulable(ctx, p)
			continue
		}
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: best.node.Name}}
		if k.try("binding "+p.Name, k.client.SubResource("binding").Create(ctx, p, b)) {
			best.take(p)
		}
	}
}

func (k *kubernetesControllers) choose(p *corev1.Pod, free map[string]*room) *room {
	var best *room
	for _, n := range k.objects.nodes() {
		r := free[n.Name]
		if r != nil && r.admits(p) && spreads(p, r, free) && (best == nil || r.cpu.Cmp(best.cpu) > 0) {
			best = r
		}
	}
	return best
}

func (k *kubernetesControllers) reportUnschedulable(ctx context.Context, p *corev1.Pod) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return
		}
	}
	changed := p.DeepCopy()
	changed.Status.Conditions = append(changed.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(), Message: "no node has room",
	})
	k.patch(ctx, p, changed, true)
}

// room is what a node has left.
type room struct {
	node        *corev1.Node
	cpu, memory resource.Quantity
	pods        int64
	apps        map[string]int
}

func newRoom(n *corev1.Node) *room {
	return &room{node: n, cpu: n.Status.Allocatable.Cpu().DeepCopy(), memory: n.Status.Allocatable.Memory().DeepCopy(), pods: n.Status.Allocatable.Pods().Value(), apps: map[string]int{}}
}

func requestsOf(p *corev1.Pod) (cpu, memory resource.Quantity) {
	for i := range p.Spec.Containers {
		cpu.Add(*p.Spec.Containers[i].Resources.Requests.Cpu())
		memory.Add(*p.Spec.Containers[i].Resources.Requests.Memory())
	}
	return cpu, memory
}

func (r *room) take(p *corev1.Pod) {
	cpu, memory := requestsOf(p)
	r.cpu.Sub(cpu)
	r.memory.Sub(memory)
	r.pods--
	r.apps[p.Labels["app"]]++
}

func (r *room) admits(p *corev1.Pod) bool {
	cpu, memory := requestsOf(p)
	if r.pods < 1 || r.cpu.Cmp(cpu) < 0 || r.memory.Cmp(memory) < 0 || !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(r.node.Labels)) {
		return false
	}
	for i := range r.node.Spec.Taints {
		t := &r.node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, t) }) {
			return false
		}
	}
	return true
}

func tolerates(x corev1.Toleration, t *corev1.Taint) bool {
	return (x.Effect == "" || x.Effect == t.Effect) && (x.Key == "" || x.Key == t.Key) && (x.Operator == corev1.TolerationOpExists || x.Value == t.Value)
}

// spreads reports whether a pod may go to a node by its spread over zones or hostnames, or its
// anti-affinity to pods of its own app.
func spreads(p *corev1.Pod, r *room, free map[string]*room) bool {
	app := p.Labels["app"]
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 && r.apps[app] > 0 {
		return false
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		counts := map[string]int{}
		for _, other := range free {
			if domain := other.node.Labels[c.TopologyKey]; domain != "" && labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(other.node.Labels)) {
				counts[domain] += other.apps[app]
			}
		}
		least := -1
		for _, n := range counts {
			if least < 0 || n < least {
				least = n
			}
		}
		mine := r.node.Labels[c.TopologyKey]
		if mine == "" || counts[mine]+1-max(0, least) > int(c.MaxSkew) {
			return false
		}
	}
	return true
}

// runPods is the kubelets' work on pods, and what the cluster does with pods of lost nodes.
func (k *kubernetesControllers) runPods(ctx context.Context) {
	nodes := map[string]*corev1.Node{}
	for _, n := range k.objects.nodes() {
		nodes[n.Name] = n
	}
	there := map[types.UID]bool{}
	for _, p := range k.objects.pods() {
		there[p.UID] = true
		n := nodes[p.Spec.NodeName]
		switch {
		case p.Spec.NodeName == "":
		case n == nil: // the pod garbage collector
			k.try("collecting pod "+p.Name, k.client.Delete(ctx, p, client.GracePeriodSeconds(0)))
		case ago(k.lastSeen[n.UID]) > tick:
			k.lose(ctx, p, n)
		case p.DeletionTimestamp != nil:
			k.endPod(ctx, p)
		case p.Status.Phase == corev1.PodFailed: // its owner has had another one made
			k.try("collecting failed pod "+p.Name, k.client.Delete(ctx, p))
		case p.Status.Phase == corev1.PodPending:
			k.startPod(ctx, p)
		}
	}
	for uid := range k.ends {
		if !there[uid] {
			delete(k.ends, uid)
		}
	}
	for uid := range k.starts {
		if !there[uid] {
			delete(k.starts, uid)
		}
	}
}

// lose deletes the pods of a Node that has been unreachable for long, as far as they do not tolerate it.
func (k *kubernetesControllers) lose(ctx context.Context, p *corev1.Pod, n *corev1.Node) {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute && t.TimeAdded != nil && k.now().Sub(t.TimeAdded.Time) > unreachable && p.DeletionTimestamp == nil {
			k.try("evicting by taint "+p.Name, k.client.Delete(ctx, p))
		}
	}
}

// endPod has a pod end when its containers have: some at once, some as late as they may.
func (k *kubernetesControllers) endPod(ctx context.Context, p *corev1.Pod) {
	end, known := k.ends[p.UID]
	grace := time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	latest := time.Now().Add(grace) // by its kubelet's own clock, from when it heard of it
	switch {
	case !known:
		end = ending{latest, *p.DeletionGracePeriodSeconds}
		if k.random.IntN(4) > 0 { // others do not listen
			end.at = time.Now().Add(time.Duration(k.random.Float64() * float64(grace)))
		}
	case *p.DeletionGracePeriodSeconds < end.grace:
		end.grace = *p.DeletionGracePeriodSeconds
		if latest.Before(end.at) {
			end.at = latest
		}
	}
	k.ends[p.UID] = end
	if !time.Now().Before(end.at) {
		uid := p.UID
		k.try("ending pod "+p.Name, k.client.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid}))
	}
}

// startPod has a pod run and be ready once its image is there and it has started.
func (k *kubernetesControllers) startPod(ctx context.Context, p *corev1.Pod) {
	at, known := k.starts[p.UID]
	if !known {
		at = time.Now().Add(time.Second + time.Duration(k.random.ExpFloat64()*float64(8*time.Second)))
		k.starts[p.UID] = at
	}
	if time.Now().Before(at) {
		return
	}
	changed := p.DeepCopy()
	now := metav1.Now()
	changed.Status.StartTime = &now
	if p.Annotations[annotationFails] != "" {
		changed.Status.Phase = corev1.PodFailed
		k.patch(ctx, p, changed, true)
		return
	}
	changed.Status.Phase = corev1.PodRunning
	changed.Status.Conditions = slices.DeleteFunc(changed.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	changed.Status.Conditions = append(changed.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	k.patch(ctx, p, changed, true)
}

// countBudgets is the disruption controller.
func (k *kubernetesControllers) countBudgets(ctx context.Context) {
	for _, b := range k.objects.budgets() {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		var expected, healthy int32
		disrupted := map[string]metav1.Time{}
		for _, p := range k.objects.pods() {
			if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) {
				continue
			}
			expected++
			at, leaving := b.Status.DisruptedPods[p.Name]
			leaving = leaving && p.DeletionTimestamp == nil && k.now().Sub(at.Time) < 2*time.Minute
			if leaving {
				disrupted[p.Name] = at
			}
			if p.DeletionTimestamp == nil && !leaving && isReady(p) {
				healthy++
			}
		}
		expected = max(expected, k.wanted(b, selector))
		desired := desiredHealthy(b, expected)
		status := policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, DisruptedPods: disrupted, ExpectedPods: expected, CurrentHealthy: healthy, DesiredHealthy: desired,
			DisruptionsAllowed: max(0, healthy-desired), Conditions: b.Status.Conditions,
		}
		if len(disrupted) == 0 {
			status.DisruptedPods = nil
		}
		if expected == 0 {
			status.DisruptionsAllowed = 0
		}
		if fmt.Sprint(status) != fmt.Sprint(b.Status) {
			changed := b.DeepCopy()
			changed.Status = status
			k.patch(ctx, b, changed, true)
		}
	}
}

// wanted is how many pods the owners of a budget's pods want.
func (k *kubernetesControllers) wanted(b *policyv1.PodDisruptionBudget, selector labels.Selector) int32 {
	var n int32
	for _, s := range k.objects.replicaSets() {
		if s.Namespace == b.Namespace && selector.Matches(labels.Set(s.Spec.Template.Labels)) {
			n += *s.Spec.Replicas
		}
	}
	return n
}

func desiredHealthy(b *policyv1.PodDisruptionBudget, expected int32) int32 {
	if v := b.Spec.MaxUnavailable; v != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, int(expected), true)
		return max(0, expected-int32(n))
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, int(expected), true)
	return int32(n)
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
