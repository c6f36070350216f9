// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// leavingNode shows m a leaving node with its pods.
func leavingNode(m *Mirror, pods ...*corev1.Pod) *corev1.Node {
	claim, node := joined(claimNamed("a"))
	claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	m.SetClaim(claim)
	m.SetNode(node)
	for _, p := range pods {
		m.SetPod(boundTo(p, node.Name), true)
	}
	return node
}

func reschedulablePods(m *Mirror) (uids []string) {
	m.View(func(*cluster.Snapshot) {})
	for uid, p := range m.parts.builder.pods {
		if p.ReschedulableNow {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Rule BLOCK-5: no capacity is sought for a pod that cannot be evicted.
func TestPodsBlockedForGoodNeedNoCapacity(t *testing.T) {
	var woken []string
	m := NewMirror(func(uid string) { woken = append(woken, uid) })
	db := runningPod("db", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })
	node := leavingNode(m, runningPod("web"), db)
	want := func(name string, uids ...string) {
		t.Helper()
		if got := reschedulablePods(m); !slices.Equal(got, uids) {
			t.Errorf("%s: %v need capacity, want %v", name, got, uids)
		}
	}
	want("at first", "uid-db", "uid-web")

	closed := pdbOf("b", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 0 })
	m.SetPDB(&closed)
	want("none may go now", "uid-db", "uid-web")
	never := pdbOf("b", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.DesiredHealthy = 0, 3 })
	m.SetPDB(&never)
	want("none may ever go", "uid-db")
	m.SetPod(boundTo(runningPod("web", terminating), node.Name), false)
	m.RemovePod(runningPod("web"))
	m.SetPod(boundTo(runningPod("web"), node.Name), false)
	want("another pod of the kind", "uid-db")

	woken = nil
	open := pdbOf("b")
	m.SetPDB(&open)
	if !slices.Equal(woken, []string{""}) {
		t.Errorf("a budget gave way, but woke %q", woken)
	}
	m.DropLapsed()
	if !slices.Contains(woken, "uid-web") {
		t.Errorf("a pod needs room, but woken were %q", woken)
	}
	want("one may go", "uid-db", "uid-web")

	second := pdbOf("c")
	m.SetPDB(&second)
	want("two budgets", "uid-db")
	m.RemovePDB(&second)
	want("one budget", "uid-db", "uid-web")
	m.RemovePDB(&open)
	want("no budget", "uid-db", "uid-web")
	if len(m.parts.protections.blocked)+len(m.parts.protections.unchecked) != 0 {
		t.Error("something of the budgets is left")
	}
}

// Rule BLOCK-5: pods whose budgets changed are looked at a few at a time, and all before a View.
func TestPDBsAreCheckedInParts(t *testing.T) {
	m := NewMirror(nil)
	const onNode = checkedAtOnce / 4
	for n := range 12 {
		claim, node := joined(claimNamed(fmt.Sprint("c", n)))
		claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		m.SetClaim(claim)
		m.SetNode(node)
		for i := range onNode {
			m.SetPod(boundTo(runningPod(fmt.Sprint("p", n, "-", i)), node.Name), true)
		}
	}
	never := pdbOf("b", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.DesiredHealthy = 0, 3 })
	m.SetPDB(&never)
	m.parts.protections.queueChecks()
	if uids, more := m.parts.protections.takeChecked(); len(uids) != checkedAtOnce || !more {
		t.Errorf("%d pods at once, more: %t", len(uids), more)
	}
	m.parts.protections.setPDB(&policyv1.PodDisruptionBudget{ObjectMeta: never.ObjectMeta})
	m.SetPDB(&never) // all are looked at again
	if uids := reschedulablePods(m); len(uids) > 0 {
		t.Errorf("%d pods are still to be moved", len(uids))
	}
}

// Rule BLOCK-4: a pod needs a new node from the moment its annotation lapses.
func TestProtectionLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []string
		m := NewMirror(func(uid string) { woken = append(woken, uid) })
		now := metav1.Now()
		leavingNode(m, runningPod("p", annotate("10m"), func(p *corev1.Pod) { p.Status.StartTime = &now }))
		time.Sleep(10*time.Minute - time.Second)
		if got := reschedulablePods(m); got != nil {
			t.Errorf("%v before its time", got)
		}
		before := m.Revision()
		time.Sleep(time.Second)
		m.DropLapsed()
		if got := reschedulablePods(m); !slices.Equal(got, []string{"uid-p"}) || !slices.Contains(woken, "uid-p") || m.Revision() == before {
			t.Errorf("%v need room, %q were woken, the revision went from %d to %d", got, woken, before, m.Revision())
		}
	})
}

// A do-not-disrupt duration ends once: writes of the pod afterwards change nothing.
//
// Rule BLOCK-4.
func TestProtectionLapsesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		now := metav1.Now()
		p := runningPod("p", annotate("10m"), func(p *corev1.Pod) { p.Status.StartTime = &now })
		leavingNode(m, p)
		time.Sleep(10 * time.Minute)
		m.DropLapsed()
		before := m.Revision()
		m.SetPod(p.DeepCopy(), false)
		m.DropLapsed()
		m.View(func(*cluster.Snapshot) {})
		if got := m.Revision(); got != before || len(m.parts.protections.annotationEnds) != 0 {
			t.Errorf("the revision went from %d to %d, though nothing changed since the annotation lapsed", before, got)
		}
	})
}

// Rule BLOCK-4: pods whose annotation cannot be read are listed while they run.
func TestInvalidDoNotDisruptIsListed(t *testing.T) {
	m := NewMirror(nil)
	want := func(names ...string) {
		t.Helper()
		var got []string
		for _, p := range m.InvalidDoNotDisrupt() {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%v, want %v", got, names)
		}
	}
	for _, p := range []*corev1.Pod{runningPod("b", annotate("yes")), runningPod("a", annotate("-1m")), runningPod("c", annotate("1m")), runningPod("d"), pendingPod("e")} {
		m.SetPod(p, false)
	}
	want("a", "b")
	m.SetPod(runningPod("a", annotate("true")), false)
	want("b")
	m.RemovePod(runningPod("b", annotate("yes")))
	want()
}

// The revision changes with everything that decisions about nodes read, and not with routine
// kubelet reports.
func TestRevision(t *testing.T) {
	m := NewMirror(nil)
	claim, node := joined(claimNamed("a"))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod := boundTo(runningPod("p"), node.Name)
	budget := pdbOf("b")
	expect := func(name string, moves bool, change func()) {
		t.Helper()
		before := m.Revision()
		change()
		m.View(func(*cluster.Snapshot) {})
		if moved := m.Revision() != before; moved != moves {
			t.Errorf("%s: the revision moved: %t", name, moved)
		}
	}
	changedNode := func(change func(*corev1.Node)) func() {
		return func() { node = node.DeepCopy(); change(node); m.SetNode(node) }
	}
	changedPod := func(change func(*corev1.Pod)) func() {
		return func() { pod = pod.DeepCopy(); change(pod); m.SetPod(pod, false) }
	}
	changedPool := func(change func(*karpv1.NodePool)) func() {
		return func() { pool = pool.DeepCopy(); change(pool); m.SetPool(pool) }
	}
	changedClaim := func(version string) func() {
		return func() { claim = claim.DeepCopy(); claim.ResourceVersion = version; m.SetClaim(claim) }
	}
	changedBudget := func(change func(*policyv1.PodDisruptionBudget)) func() {
		return func() { budget = *budget.DeepCopy(); change(&budget); m.SetPDB(&budget) }
	}
	expect("a pool", true, func() { m.SetPool(pool) })
	expect("a claim", true, changedClaim("1"))
	expect("a node", true, func() { m.SetNode(node) })
	expect("a pod", true, func() { m.SetPod(pod, false) })
	expect("a budget", true, func() { m.SetPDB(&budget) })

	expect("a node's heartbeat", false, changedNode(func(n *corev1.Node) {
		n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "7", metav1.Now()
		n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
	}))
	expect("a node that is not ready", true, changedNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }))
	expect("a node that asks to be left alone", true, changedNode(func(n *corev1.Node) {
		n.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}))
	expect("a tainted node", true, changedNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint} }))

	expect("a pod seen again", false, changedPod(func(p *corev1.Pod) { p.ResourceVersion = "9" }))
	expect("a pod that is not ready", true, changedPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }))
	expect("a pod that asks to be left alone", true, changedPod(annotate("true")))
	expect("a pod that is dear", true, changedPod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "9"} }))
	expect("a pod that goes", true, changedPod(terminating))

	expect("a pool that counts its nodes", false, changedPool(func(p *karpv1.NodePool) { p.Status.Resources = resources("cpu", "7") }))
	expect("a pool with an annotation", true, changedPool(func(p *karpv1.NodePool) { p.Annotations = map[string]string{kube.MinSavingsAnnotation: "1%"} }))
	expect("a pool with a budget", true, changedPool(func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} }))

	expect("a claim seen again", false, changedClaim("1"))
	expect("a claim with something new", true, changedClaim("2"))

	expect("a budget that counts", false, changedBudget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 2 }))
	expect("a budget that is used up", true, changedBudget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 0 }))

	expect("what is on sale", true, func() { m.SetCatalog("default", nil, map[string]int64{"cores": 4}) })
	expect("the same on sale", false, func() { m.SetCatalog("default", nil, map[string]int64{"cores": 4}) })
	expect("less quota", true, func() { m.SetCatalog("default", nil, map[string]int64{"cores": 2}) })
	expect("a nomination", true, func() { m.Nominate(claim.Name, nil) })
	expect("nothing", false, func() { m.DropLapsed() })
	expect("no budget", true, func() { m.RemovePDB(&budget) })
	expect("no pod", true, func() { m.RemovePod(pod) })
	expect("no claim", true, func() { m.RemoveClaim(claim) })
	expect("no node", true, func() { m.RemoveNode(node) })
}
