// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

func pendingPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1")}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

func boundTo(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

func claimNamed(name string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(), Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}}}
	c.Spec.Resources.Requests = resources("cpu", "2")
	return c
}

// joined is the claim and its Node once the node is up.
func joined(c *karpv1.NodeClaim) (*karpv1.NodeClaim, *corev1.Node) {
	c = c.DeepCopy()
	c.Status.ProviderID = "id-" + c.Name
	c.Status.Allocatable = resources("cpu", "2", "pods", "10")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + c.Name, Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"}}}
	n.Spec.ProviderID = c.Status.ProviderID
	n.Status.Allocatable = resources("cpu", "2", "pods", "10")
	return c, n
}

// In whatever order events arrive, the Snapshot is the one of a fresh list.
//
// Rule PLAN-10.
func TestMirrorEqualsRebuild(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		kept, m := map[string]any{}, NewMirror(nil)
		for range 800 {
			change(random, kept, m)
		}
		fresh := NewMirror(nil)
		for _, x := range kept {
			show(fresh, x)
		}
		for _, x := range []*Mirror{m, fresh} {
			x.View(func(*cluster.Snapshot) {}) // View looks again at pods whose budgets changed
		}
		if diff := cmp.Diff(fresh.parts.protections.blocked, m.parts.protections.blocked); diff != "" {
			t.Fatalf("seed %d: pods that are blocked for good differ: %s", seed, diff)
		}
		if diff := cmp.Diff(fresh.parts.builder.pods, m.parts.builder.pods); diff != "" {
			t.Fatalf("seed %d: pods differ: %s", seed, diff)
		}
		if diff := cmp.Diff(fresh.parts.builder.nodes, m.parts.builder.nodes); diff != "" {
			t.Fatalf("seed %d: nodes differ: %s", seed, diff)
		}
		if diff := cmp.Diff(fresh.parts.catalogs.limits.lowest, m.parts.catalogs.limits.lowest); diff != "" {
			t.Fatalf("seed %d: learnt limits differ: %s", seed, diff)
		}
	}
}

// change does one random thing to the cluster and shows it to m.
func change(random *rand.Rand, kept map[string]any, m *Mirror) {
	i := random.IntN(8)
	claim, node := joined(claimNamed(fmt.Sprint("web-", i)))
	claim.CreationTimestamp = metav1.Time{}
	early := claim.DeepCopy()
	early.Status = karpv1.NodeClaimStatus{}
	twin := claim.DeepCopy()
	twin.Status.ProviderID = fmt.Sprint("id-web-", i/2)
	named := claim.DeepCopy()
	named.Status.NodeName = node.Name
	named.Labels[corev1.LabelInstanceTypeStable] = "t0"
	rogue := node.DeepCopy()
	rogue.Name, rogue.CreationTimestamp = fmt.Sprint("rogue-", i), metav1.Time{Time: time.Unix(1, 0)}
	leaving := twin.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	node.Labels[corev1.LabelInstanceTypeStable] = fmt.Sprint("t", i%2)
	unregistered := node.DeepCopy()
	unregistered.Labels = nil
	pod := pendingPod(fmt.Sprint("p", i))
	pod.Labels = map[string]string{"pod": fmt.Sprint(i)}
	diskPod := mounting(fmt.Sprint("d", i), fmt.Sprint("data", i%3))
	options := []any{
		early, claim, named, twin, leaving, node, rogue, unregistered, pod, boundTo(pod, node.Name), boundTo(pod, "elsewhere"), diskPod, boundTo(diskPod, node.Name),
		unboundClaim(fmt.Sprint("data", i%3), "late"), boundClaim(fmt.Sprint("data", i%3), fmt.Sprint("pv", i%2)), csiVolume(fmt.Sprint("pv", i%2)),
		late("late"), storageClass("late", azureDisk, storagev1.VolumeBindingImmediate), reporting(node.Name, new(int32(i))), reporting(node.Name, nil),
		randomBudget(i),
	}
	x := options[random.IntN(len(options))]
	key := fmt.Sprintf("%T %s", x, x.(metav1.Object).GetName())
	if _, there := kept[key]; there && random.IntN(4) == 0 {
		hide(m, kept[key])
		delete(kept, key)
		return
	}
	kept[key] = x
	show(m, x)
}

// randomBudget selects one pod, or all; some budgets never allow an eviction.
func randomBudget(i int) *policyv1.PodDisruptionBudget {
	b := pdbOf(fmt.Sprint("b", i), func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector = &metav1.LabelSelector{}
		if i < 6 {
			b.Spec.Selector.MatchLabels = map[string]string{"pod": fmt.Sprint(i / 2)}
		}
		b.Status.DesiredHealthy += int32(i % 2)
	})
	return &b
}

func show(m *Mirror, x any) {
	switch x := x.(type) {
	case *policyv1.PodDisruptionBudget:
		m.SetPDB(x)
	case *corev1.Pod:
		m.SetPod(x, false)
	case *corev1.Node:
		m.SetNode(x)
	case *karpv1.NodeClaim:
		m.SetClaim(x)
	case *corev1.PersistentVolumeClaim:
		m.SetPVC(x)
	case *corev1.PersistentVolume:
		m.SetVolume(x)
	case *storagev1.StorageClass:
		m.SetStorageClass(x)
	case *storagev1.CSINode:
		m.SetCSINode(x)
	}
}

func hide(m *Mirror, x any) {
	switch x := x.(type) {
	case *policyv1.PodDisruptionBudget:
		m.RemovePDB(x)
	case *corev1.Pod:
		m.RemovePod(x)
	case *corev1.Node:
		m.RemoveNode(x)
	case *karpv1.NodeClaim:
		m.RemoveClaim(x)
	case *corev1.PersistentVolumeClaim:
		m.RemovePVC(x)
	case *corev1.PersistentVolume:
		m.RemoveVolume(x)
	case *storagev1.StorageClass:
		m.RemoveStorageClass(x)
	case *storagev1.CSINode:
		m.RemoveCSINode(x)
	}
}

// No second node is launched for a pod while the first is in flight, until its claim is given
// up.
//
// Rule LAUNCH-2.
func TestNominationHoldsUntilClaimGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []string
		m := NewMirror(func(pod string) { woken = append(woken, pod) })
		pod, claim := pendingPod("a"), claimNamed("web-1")
		m.SetPod(pod, false)
		if m.CountWaiting() != 1 || len(woken) != 1 {
			t.Fatalf("waiting %d, woken %v", m.CountWaiting(), woken)
		}
		m.RecordCreatedClaim(claim, nil, []cluster.PodRef{kube.Ref(pod)})
		time.Sleep(5 * time.Minute) // booting takes a while
		m.SetClaim(claim)           // the watch shows it at last
		m.DropLapsed()
		if m.CountWaiting() != 0 {
			t.Error("the pod waits for room although an instance is on its way for it")
		}
		m.RemoveClaim(claim)
		if m.CountWaiting() != 1 || len(woken) != 2 {
			t.Errorf("after the claim went: waiting %d, woken %v", m.CountWaiting(), woken)
		}
	})
}

// Rule LAUNCH-2.
func TestNominationLapsesOnReadyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		pod := pendingPod("a")
		m.SetPod(pod, false)
		early := claimNamed("web-1")
		m.RecordCreatedClaim(early, nil, []cluster.PodRef{kube.Ref(pod)})
		claim, node := joined(early)
		m.SetClaim(claim)
		m.SetNode(node)
		if w := m.parts.builder.pods[string(pod.UID)]; w.Node != node.Name {
			t.Errorf("the nomination did not follow the node's name: %q", w.Node)
		}
		time.Sleep(NominatedFor)
		m.DropLapsed()
		if m.CountWaiting() != 0 {
			t.Error("the nomination lapsed too soon")
		}
		time.Sleep(time.Second)
		m.DropLapsed()
		if m.CountWaiting() != 1 {
			t.Error("the scheduler did not bind the pod, yet it is thought to be placed")
		}
	})
}

// Other pods that take the capacity end the nominations at once.
//
// Rule LAUNCH-2.
func TestNominationYieldsToOtherPods(t *testing.T) {
	m := NewMirror(nil)
	pod, stranger := pendingPod("a"), pendingPod("b")
	stranger.Spec.Containers = []corev1.Container{container("cpu", "1500m")}
	claim, node := joined(claimNamed("web-1"))
	m.SetClaim(claim)
	m.SetNode(node)
	m.SetPod(pod, false)
	m.Nominate("web-1", []cluster.PodRef{kube.Ref(pod)})
	m.SetPod(boundTo(pendingPod("small"), node.Name), false)
	if m.CountWaiting() != 0 {
		t.Fatal("a pod that leaves room ended the nomination")
	}
	m.SetPod(boundTo(stranger, node.Name), false)
	if m.CountWaiting() != 1 {
		t.Error("the nominated pod does not fit any more and is still nominated")
	}
}

// No node is launched for a pool of another provisioner in the same cluster.
func TestPoolsOfOthersAreLeftAlone(t *testing.T) {
	m := NewMirror(nil)
	m.NodeClassKind = schema.GroupKind{Group: "karpenter.azure.com", Kind: "AKSNodeClass"}
	for _, ref := range []karpv1.NodeClassReference{
		{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"},
		{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
	} {
		pool := &karpv1.NodePool{}
		pool.Name = ref.Kind
		pool.Spec.Template.Spec.NodeClassRef = &ref
		m.SetPool(pool)
	}
	m.View(func(snapshot *cluster.Snapshot) {
		if len(snapshot.PoolCatalogs) != 1 || snapshot.PoolCatalogs[0].Pool.Name != "AKSNodeClass" {
			t.Errorf("%d pool catalogs, want the one of our kind", len(snapshot.PoolCatalogs))
		}
	})
}

// A claim that no watch has shown counts until it is known not to exist.
//
// Rule LAUNCH-14.
func TestUnseenClaimCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		pod := pendingPod("a")
		m.SetPod(pod, false)
		m.RecordCreatedClaim(claimNamed("web-1"), nil, []cluster.PodRef{kube.Ref(pod)})
		expect := func(overdue, waiting, nodes int) {
			t.Helper()
			m.DropLapsed()
			if got := m.OverdueClaims(); len(got) != overdue || m.CountWaiting() != waiting || len(m.ManagedNodes()) != nodes {
				t.Errorf("overdue %v, want %d; waiting %d, want %d; nodes %d, want %d",
					got, overdue, m.CountWaiting(), waiting, len(m.ManagedNodes()), nodes)
			}
		}
		time.Sleep(unseenFor)
		expect(0, 0, 1)
		time.Sleep(time.Second)
		expect(1, 0, 1)
		m.KeepClaim("web-1")
		expect(0, 0, 1)
		time.Sleep(unseenFor + time.Second)
		expect(1, 0, 1)
		m.ReleaseClaim("web-1")
		expect(0, 1, 0)
		m.KeepClaim("web-1")
		expect(0, 1, 0)
	})
}

func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		claim, node := joined(claimNamed("web-1"))
		m.SetClaim(claim)
		m.SetNode(node)
		activity := func() time.Time { return m.ManagedNodes()[0].Activity }
		pod := boundTo(pendingPod("a"), node.Name)
		m.SetPod(pod, true)
		daemon := boundTo(pendingPod("d"), node.Name)
		daemon.ObjectMeta.OwnerReferences = owned("DaemonSet", "apps/v1").OwnerReferences
		m.SetPod(daemon, false)
		if !activity().IsZero() {
			t.Error("a pod that was there before, or a DaemonSet's, is no activity")
		}
		for _, step := range []func(){
			func() { m.SetPod(boundTo(pendingPod("b"), node.Name), false) },
			func() {
				gone := pod.DeepCopy()
				gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				m.SetPod(gone, false)
			},
			func() { m.RemovePod(pod) },
		} {
			time.Sleep(time.Second)
			step()
			if !activity().Equal(time.Now()) {
				t.Errorf("activity %v, want now", activity())
			}
		}
	})
}
