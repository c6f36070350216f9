// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// A pod that was deleted and recreated while the watch was cut is one pod, not two: no node is
// launched for the pod that was deleted.
//
// Rule MEMORY-1.
func TestPodMadeAnewInAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		old := pendingPod("web-0")
		c := watchCluster(t, m, old)
		again := pendingPod("web-0")
		again.UID = "uid-again"
		c.cut(old, func() {
			c.remove(old)
			c.put(again)
		})
		if m.CountWaiting() != 1 || m.Pod("uid-web-0") != nil || m.Pod("uid-again") == nil {
			t.Errorf("%d pods wait for room, want the new one only", m.CountWaiting())
		}
		c.remove(again)
		c.settle()
		if m.CountWaiting() != 0 || len(m.parts.pods.byUID) != 0 {
			t.Errorf("no pod is left, and %d wait for room", m.CountWaiting())
		}
	})
}

// A DaemonSet that was deleted and recreated while the watch was cut counts once on new nodes.
//
// Rule MEMORY-1.
func TestDaemonSetMadeAnewInAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		old := agent("1")
		c := watchCluster(t, m, old)
		again := agent("1")
		again.UID = "again"
		c.cut(old, func() {
			c.remove(old)
			c.put(again)
		})
		if len(m.parts.daemonSets.byUID) != 1 || m.parts.daemonSets.byUID[string(again.UID)] == nil {
			t.Errorf("%d DaemonSets are known, want the new one", len(m.parts.daemonSets.byUID))
		}
	})
}

// A pod that was nominated to a NodeClaim is not nominated to another one of its name, and pod
// events on a Node are not recorded for another Node.
//
// Rule MEMORY-1.
func TestClaimAndNodeMadeAnewInAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		claim, node := joined(claimNamed("web-1"))
		claim.UID, node.UID = "claim-1", "node-1"
		pod, runs := pendingPod("a"), boundTo(pendingPod("b"), node.Name)
		c := watchCluster(t, m, claim, node, pod)
		c.put(runs)
		synctest.Wait()
		m.Nominate("web-1", []cluster.PodRef{kube.Ref(pod)})
		if m.CountWaiting() != 0 || m.ManagedNodes()[0].Activity.IsZero() {
			t.Fatalf("%d pods wait, activity at %v", m.CountWaiting(), m.ManagedNodes()[0].Activity)
		}
		c.cut(node, func() {
			c.remove(node)
			node.UID = "node-2"
			c.put(node)
		})
		if at := m.ManagedNodes()[0].Activity; !at.IsZero() {
			t.Errorf("a pod came to the new Node at %v", at)
		}
		c.cut(claim, func() {
			c.remove(claim)
			claim.UID = "claim-2"
			c.put(claim)
		})
		if m.CountWaiting() != 1 {
			t.Error("the pod is nominated to a NodeClaim that it was not nominated to")
		}
	})
}

// gapSeeds is how many clusters the next test lives through.
const gapSeeds = 200

// Whatever events watches miss, delay or repeat, in whatever state they report a deletion, and
// whatever karve decides meanwhile, the Mirror ends in the state that a list of the cluster gives.
//
// Rule MEMORY-1, Rule PLAN-10.
func TestMirrorEqualsRebuildAfterGaps(t *testing.T) {
	for seed := range uint64(gapSeeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMirror(nil)
				setCatalog(m)
				x := &monkey{Rand: rand.New(rand.NewPCG(seed, 7)), watched: watchCluster(t, m), mirror: m}
				for range 20 {
					x.round()
					x.decide()
				}
				x.compare(t)
			})
		})
	}
}

// setCatalog sets the catalog.
func setCatalog(m *Mirror) {
	m.SetCatalog(kube.ClassOf(nastyPool("").Spec.Template.Spec.NodeClassRef), newNasty().types, nil)
}

// monkey changes a cluster at random.
type monkey struct {
	*rand.Rand
	*watched
	mirror *Mirror
	made   int // objects so far, for their UIDs
}

// round makes some changes, with or without the watch of a kind, or while a decision is being made.
func (x *monkey) round() {
	changes := func() {
		for range 1 + x.IntN(8) {
			x.touch(x.draw())
		}
	}
	switch o := x.draw(); x.IntN(8) {
	case 0:
		x.lag(o, x.IntN(2) == 0, func() {
			changes()
			x.anew(o)
			synctest.Wait()
		})
	case 1, 2:
		x.cut(o, func() {
			for range 1 + x.IntN(8) {
				if y := x.draw(); x.shelf(y) == x.shelf(o) || x.IntN(4) == 0 {
					x.touch(y)
				}
			}
			x.anew(o)
		})
	case 3:
		x.mirror.View(func(*cluster.Snapshot) {
			changes()
			synctest.Wait()
		})
	default:
		changes()
		synctest.Wait()
	}
}

// decide records a decision, which may be about objects that do not exist any more.
func (x *monkey) decide() {
	claim := claimNamed(fmt.Sprint("web-", x.IntN(6)))
	claim.CreationTimestamp = metav1.Time{}
	pods := x.pods()
	pods = pods[:min(len(pods), x.IntN(3))]
	switch x.IntN(8) {
	case 0:
		x.mirror.Nominate([]string{claim.Name, "node-" + claim.Name}[x.IntN(2)], pods)
	case 1:
		x.mirror.RecordCreatedClaim(claim, nil, pods)
	case 2:
		x.mirror.BeginMove(BeginMoveRequest{Nodes: []string{claim.Name}, NewClaims: []NewClaim{{Claim: claimNamed("new"), Pods: pods}}})
	case 3:
		x.mirror.CancelMove([]string{claim.Name}, []string{"new"})
	case 4:
		x.mirror.DropLapsed()
		x.releaseOverdue()
	}
}

// releaseOverdue has the API server say of each overdue NodeClaim that it does not exist.
func (x *monkey) releaseOverdue() {
	for _, claim := range x.mirror.OverdueClaims() {
		x.mirror.ReleaseClaim(claim)
	}
}

// pods are the pods that the Mirror knows, by UID.
func (x *monkey) pods() (pods []cluster.PodRef) {
	x.mirror.mu.Lock()
	defer x.mirror.mu.Unlock()
	for _, uid := range keysOf(x.mirror.parts.pods.byUID) {
		pods = append(pods, kube.Ref(x.mirror.parts.pods.get(uid).Pod))
	}
	return pods
}

// takeBack ends what karve decided about objects that exist: no list tells of it. What it decided
// about others must have ended by itself.
func (x *monkey) takeBack() {
	p := &x.mirror.parts
	x.mirror.mu.Lock()
	claims := keysOf(p.nodes.claims)
	x.mirror.mu.Unlock()
	x.mirror.CancelMove(claims, nil)
	x.settle() // until claims that no watch shows are overdue
	x.mirror.DropLapsed()
	x.releaseOverdue()
	x.mirror.change(func() (w wakeups) {
		for _, uid := range keysOf(p.pods.byUID) {
			p.nominations.remove(uid)
			w.pods = append(w.pods, p.podWriter.write(uid)...)
		}
		return w
	})
}

// touch creates, updates, evicts or deletes an object; the delete event may have a last change.
func (x *monkey) touch(o client.Object) {
	old := x.shelf(o).objects[nameOf(o)]
	if old == nil {
		x.made++
		o.SetUID(types.UID(fmt.Sprint("uid-", x.made)))
		x.put(o)
		return
	}
	o.SetUID(old.GetUID())
	pod, isPod := old.(*corev1.Pod)
	switch n := x.IntN(8); {
	case n < 3:
		x.remove([]client.Object{o, old}[x.IntN(2)])
	case n == 3 && isPod:
		x.mirror.BeginEviction(pod)
		leaving := askedToLeave(pod)
		if x.IntN(2) == 0 {
			leaving.OwnerReferences = nil
		}
		x.put(leaving)
	case n == 4:
		x.shelf(o).repeat([]watch.EventType{watch.Added, watch.Modified}[x.IntN(2)], old)
	case isPod && pod.DeletionTimestamp != nil:
		x.put(old) // a duplicate
	default:
		x.put(o)
	}
}

// anew deletes an object and creates another of its name.
func (x *monkey) anew(o client.Object) {
	if old := x.shelf(o).objects[nameOf(o)]; old != nil {
		x.remove(old)
	}
	x.touch(o)
}

// draw is a random object in a random state.
func (x *monkey) draw() client.Object {
	i := x.IntN(6)
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
	stray := node.DeepCopy()
	stray.Spec.ProviderID = "id-other"
	pod := pendingPod(fmt.Sprint("p", i))
	pod.Labels = map[string]string{"pod": fmt.Sprint(i)}
	disk := mounting(fmt.Sprint("d", i), fmt.Sprint("data", i%3))
	local := agentPod(fmt.Sprint("a", i), "1", int64(i), fmt.Sprint(200+i, "m"))
	local.Namespace = "kube-system"
	orphan := local.DeepCopy()
	orphan.OwnerReferences = nil
	daemons := agent(fmt.Sprint(1 + i%2))
	daemons.Name = fmt.Sprint("agent", i%2)
	options := []client.Object{
		early, claim, named, twin, leaving, node, rogue, stray, nastyPool(fmt.Sprint("pool", i%2)), x.namespace(i), daemons,
		pod, boundTo(pod, node.Name), boundTo(pod, "elsewhere"), ofReplicaSet(pod.DeepCopy()), boundTo(ofReplicaSet(pod.DeepCopy()), node.Name),
		disk, boundTo(disk, node.Name), local, boundTo(local, node.Name), boundTo(orphan, node.Name),
		unboundClaim(fmt.Sprint("data", i%3), "late"), boundClaim(fmt.Sprint("data", i%3), fmt.Sprint("pv", i%2)), csiVolume(fmt.Sprint("pv", i%2)),
		late("late"), storageClass("late", azureDisk, storagev1.VolumeBindingImmediate), reporting(node.Name, new(int32(i))), reporting(node.Name, nil),
		randomBudget(i), replicaSet(i%2, x.IntN(8)), statefulSet(x.IntN(8)), job(int32(x.IntN(8)), int32(x.IntN(8))),
	}
	o := options[x.IntN(len(options))]
	x.adopt(o)
	return o
}

func replicaSet(i, replicas int) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i)}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(replicas))}}
}

func statefulSet(replicas int) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(replicas))}}
}

func job(completions, succeeded int32) *batchv1.Job {
	out := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "batch"}, Spec: batchv1.JobSpec{Parallelism: new(int32(5)), Completions: &completions}}
	out.Status.Succeeded = succeeded
	return out
}

// adopt gives a pod of a DaemonSet or a ReplicaSet an existing one as its owner.
func (x *monkey) adopt(o client.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok || len(p.OwnerReferences) == 0 {
		return
	}
	kind := typeOf(&appsv1.ReplicaSet{})
	if kube.OwnedByDaemonSet(p) {
		kind = typeOf(&appsv1.DaemonSet{})
	}
	for _, owner := range x.kinds[kind].objects {
		p.OwnerReferences[0].UID = owner.GetUID()
	}
}

func (x *monkey) namespace(i int) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"tier": fmt.Sprint(i)}}}
}

// compare checks that a Mirror that is shown only the current cluster has the same state.
func (x *monkey) compare(t *testing.T) {
	t.Helper()
	// These are about the past, and no list has them.
	x.mirror.mu.Lock()
	past := slices.Concat(keysOf(x.mirror.parts.podReplacements.byEvicted), keysOf(x.mirror.parts.podReplacements.superseded))
	x.mirror.mu.Unlock()
	for _, p := range past {
		if pod := x.mirror.Pod(p); pod != nil {
			x.remove(pod)
			x.settle()
		}
	}
	x.settle()
	x.takeBack()
	fresh := NewMirror(nil)
	setCatalog(fresh)
	c := watchCluster(t, fresh, x.objects()...)
	for kind, s := range c.kinds { // the same versions
		maps.Copy(s.objects, x.kinds[kind].objects)
	}
	if diff := cmp.Diff(known(fresh), known(x.mirror)); diff != "" {
		t.Errorf("the Mirror differs from one that was shown all anew (-anew +watched):\n%s", diff)
	}
}

// known is the state of a Mirror, and the plan for its Snapshot.
func known(m *Mirror) map[string]any {
	var plan schedule.Plan
	m.View(func(snapshot *cluster.Snapshot) { plan = schedule.Solve(snapshot) })
	return map[string]any{
		"pods": keysOf(m.parts.pods.byUID), "nodes": keysOf(m.parts.nodes.byName), "claims": keysOf(m.parts.nodes.claims), "pools": keysOf(m.parts.pools), "daemonSets": keysOf(m.parts.daemonSets.byUID), "daemons": m.parts.builder.daemons, "daemonOf": m.parts.daemonSets.ownerOf,
		"nodeOf": m.parts.nodes.nodeOf, "nodesOf": m.parts.nodes.namesOf, "claimOf": m.parts.nodes.claimOf, "claimsOf": m.parts.nodes.claimsOf, "snapshotPods": m.parts.builder.pods, "snapshotNodes": withoutNominations(m.parts.builder.nodes),
		"replacements": len(m.parts.podReplacements.byEvicted) + len(m.parts.podReplacements.unmatched) + len(m.parts.podReplacements.owners), "superseded": m.parts.podReplacements.superseded,
		"podsIn": m.parts.pods.inNamespace, "blocked": m.parts.protections.blocked, "lapses": m.parts.protections.annotationEnds, "misread": m.parts.protections.invalid, "mounts": m.parts.volumes.mounts, "claimed": m.parts.volumes.pvcsOn,
		"volumes": keysOf(m.parts.volumes.storage.Volumes), "pvcs": len(m.parts.volumes.storage.PVCs), "classes": keysOf(m.parts.volumes.storage.StorageClasses),
		"nominations": m.parts.nominations.nodeOf, "nominatedTo": m.parts.nominations.podsOn, "endsOfDeleted": endsOfDeleted(m), "moving": m.parts.nodes.moving, "unseen": m.parts.nodes.unseen, "leftOut": len(m.leftOut),
		"namespaces": m.parts.builder.namespaces, "snapshotPools": m.parts.builder.pools, "budgets": budgets(m),
		"csiNodes": keysOf(m.parts.catalogs.limits.nodes), "typeOf": m.parts.catalogs.limits.typeOf, "learnt": m.parts.catalogs.limits.lowest,
		"wanted": m.parts.owners.wanted, "podsOf": m.parts.owners.pods, "owed": m.parts.builder.owed, "plan": plan,
	}
}

// withoutNominations are nodes without the time of their last nomination, which no list has.
func withoutNominations(nodes map[string]cluster.Node) map[string]cluster.Node {
	out := maps.Clone(nodes)
	for key, n := range out {
		n.NominatedUntil = time.Time{}
		out[key] = n
	}
	return out
}

// endsOfDeleted are the keys of nodes that do not exist and for which it is known until when
// nominations last.
func endsOfDeleted(m *Mirror) map[string]time.Time {
	out := maps.Clone(m.parts.nominations.ends)
	maps.DeleteFunc(out, func(key string, _ time.Time) bool {
		return m.parts.nodes.node(key) != nil || m.parts.nodes.claim(key) != nil
	})
	return out
}

// budgets are the PodDisruptionBudgets, by namespace and name, with what they say.
func budgets(m *Mirror) map[string]string {
	out := map[string]string{}
	for _, index := range m.pdbs.namespaces {
		for _, b := range index.byName {
			out[b.name.String()] = fmt.Sprint(b.selector, b.status, b.statusOutdated, b.alwaysAllowsUnready, b.forGood)
		}
	}
	return out
}

func keysOf[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }
