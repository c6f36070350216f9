// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider/memory"
)

// A Mirror, whose Snapshot is kept warm from change to change, holds no more after thousands of
// generations than after some: names, labels, selectors, topology keys, namespaces and
// resources that nothing has any more are forgotten.
//
// Rule MEMORY-2.
func TestMirrorForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(*seed, 350))
		m := state.NewMirror(func(string) {})
		stays := resident(m)
		decide := func() {
			m.DropLapsed()
			m.View(func(snapshot *cluster.Snapshot) { schedule.Solve(snapshot) })
		}
		soak{
			half: perHalf(1000), slack: numbers, bytes: 2 << 20,
			roots: []any{m},
			live: func(generation int) {
				g := newGeneration(generation, r)
				g.show(m)
				decide()
				g.change(m)
				decide()
				g.hide(m, r)
				if r.IntN(4) > 0 {
					decide()
				}
				time.Sleep(10 * time.Second)
			},
			rest: func() {
				time.Sleep(2 * time.Hour)
				decide()
			},
		}.check(t)
		if m.Pod(string(stays.UID)) == nil {
			t.Error("the pod that stayed is forgotten, too")
		}
	})
}

// numbers are given until there are twice as many as are in use and a thousand; then all
// begins anew (state.Mirror.Tidy). What conversions share is treated alike, and of events said
// lately some hundreds are remembered. Selectors have as many numbers as there were at most.
var numbers = map[string]int{"constraint.": 4096, "kube.Converter.": 4096, "cluster.signature.": 4096,
	"cluster.selectorLabels.users": 2048, "cluster.selectorLabels.former": 2048, "cluster.podSelectors.byID": 64, "cluster.podSelectors.freeIDs": 64,
	"cluster.podSelectors.matched": 64, "cluster.podSelectors.rejects": 64, "events.Recorder.seen": 512}

// resident shows a pool, a node and a pod that stay.
func resident(m *state.Mirror) *corev1.Pod {
	m.SetPool(controllertest.Pool("resident", "30s"))
	m.SetCatalog("default", memory.Types(), map[string]int64{"family:small": 100})
	claim, node := claimAndNode("resident", "resident", nil)
	m.SetClaim(claim)
	m.SetNode(node)
	p := named(controllertest.Pod("resident", "1", "1Gi"), "default", "resident")
	p.Spec.NodeName = node.Name
	m.SetPod(p, true)
	m.AssumeSynced()
	return p
}

// named gives a pod a namespace and a UID of its own.
func named(p *corev1.Pod, namespace, name string) *corev1.Pod {
	p.Namespace, p.Name, p.UID = namespace, name, types.UID("uid-"+name)
	return p
}

// claimAndNode is a NodeClaim that runs, and its Node.
func claimAndNode(name, pool string, labels map[string]string) (*karpv1.NodeClaim, *corev1.Node) {
	capacity := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	claim.Status = karpv1.NodeClaimStatus{ProviderID: "id-" + name, Capacity: capacity, Allocatable: capacity}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: map[string]string{
		corev1.LabelHostname: "node-" + name, corev1.LabelTopologyZone: "zone-1", corev1.LabelInstanceTypeStable: "small-8",
		karpv1.NodePoolLabelKey: pool, karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
	}}}
	for k, v := range labels {
		node.Labels[k] = v
	}
	node.Spec.ProviderID, node.Status.Capacity, node.Status.Allocatable = claim.Status.ProviderID, capacity, capacity
	return claim, node
}

// generation is a namespace, a class and a pool with VMs, and what runs there: all of
// them under names that nothing had before and nothing will have again.
type generation struct {
	name      string
	namespace *corev1.Namespace
	pool      *karpv1.NodePool
	class     string
	claims    []*karpv1.NodeClaim
	nodes     []*corev1.Node
	csi       []*storagev1.CSINode
	pods      []*corev1.Pod
	virtual   []cluster.Pod
	daemon    *appsv1.DaemonSet
	budget    *policyv1.PodDisruptionBudget
	disk      *corev1.PersistentVolumeClaim
	volume    *corev1.PersistentVolume
	storage   *storagev1.StorageClass
}

func newGeneration(n int, r *rand.Rand) *generation {
	name := fmt.Sprintf("g%d", n)
	g := &generation{name: name, class: "class-" + name}
	g.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team-" + name: name}}}
	g.pool = controllertest.Pool("pool-"+name, "30s")
	g.pool.Spec.Template.Spec.NodeClassRef.Name = g.class
	g.pool.Spec.Template.Labels = map[string]string{"tier-" + name: name, "tier": name}
	for i := range 1 + r.IntN(3) {
		claim, node := claimAndNode(fmt.Sprintf("%s-%d", name, i), g.pool.Name, map[string]string{"rack": name, "rack-" + name: "1", "tier": name})
		g.claims, g.nodes = append(g.claims, claim), append(g.nodes, node)
		drivers := []storagev1.CSINodeDriver{{Name: "disk.csi.example", NodeID: node.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(4))}}}
		g.csi = append(g.csi, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: storagev1.CSINodeSpec{Drivers: drivers}})
	}
	g.volumes()
	for i := range 2 + r.IntN(5) {
		g.pods = append(g.pods, g.pod(i, r))
	}
	g.virtual = []cluster.Pod{kube.Pod(named(controllertest.Pod("v", "1", "1Gi"), name, "virtual-"+name), time.Time{})}
	g.virtual[0].Virtual = true
	g.daemon = &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "agent", UID: types.UID("agent-" + name)}}
	g.daemon.Spec.Template.Spec = controllertest.Pod("x", "100m", "64Mi").Spec
	g.daemon.Spec.Template.Spec.NodeSelector = map[string]string{"tier": name}
	g.budget = &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "budget"}}
	g.budget.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &intstr.IntOrString{IntVal: 0}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app-" + name: "0"}}}
	return g
}

func (g *generation) volumes() {
	g.storage = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "storage-" + g.name}, Provisioner: "disk.csi.example"}
	g.disk = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: g.name, Name: "disk"}}
	g.disk.Spec.StorageClassName, g.disk.Spec.VolumeName = &g.storage.Name, "volume-"+g.name
	g.volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + g.name}}
	g.volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.csi.example", VolumeHandle: g.name}
}

// pod is one of the generation's: jobs, and replicas that look at each other.
func (g *generation) pod(i int, r *rand.Rand) *corev1.Pod {
	p := named(controllertest.Pod("x", fmt.Sprintf("%dm", 100+r.IntN(1000)), fmt.Sprintf("%dMi", 100+r.IntN(1000))), g.name, fmt.Sprintf("%s-%d", g.name, i))
	p.CreationTimestamp = metav1.Now()
	p.Labels = map[string]string{"job": p.Name, "app": g.name, "app-" + g.name: fmt.Sprint(r.IntN(2)), "batch.kubernetes.io/controller-uid": p.Name}
	p.Spec.Priority = new(int32(r.IntN(1_000_000)))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set-" + g.name, UID: types.UID("set-" + g.name), Controller: new(true)}}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app-" + g.name: p.Labels["app-"+g.name]}}
	if r.IntN(2) == 0 {
		own = &metav1.LabelSelector{MatchLabels: map[string]string{"job": p.Name}}
	}
	switch r.IntN(6) {
	case 0:
		p.Spec.NodeSelector = map[string]string{"tier-" + g.name: g.name}
	case 1:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "rack-" + g.name, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	case 2:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: own, NamespaceSelector: &metav1.LabelSelector{MatchLabels: g.namespace.Labels}}}}}
	case 3:
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName("example.com/device")] = resource.MustParse("1")
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "1h"}
		p.Status.StartTime = &metav1.Time{Time: time.Now()}
	case 4:
		p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
	}
	return p
}

func (g *generation) show(m *state.Mirror) {
	m.SetNamespace(g.namespace)
	m.SetPool(g.pool)
	m.SetCatalog(g.class, memory.Types(), map[string]int64{"family:small": 100, "budget-" + g.name: 1})
	m.SetStorageClass(g.storage)
	m.SetVolume(g.volume)
	m.SetPVC(g.disk)
	m.SetDaemon(g.daemon)
	m.SetPDB(g.budget)
	for i := range g.nodes {
		m.SetClaim(g.claims[i])
		m.SetNode(g.nodes[i])
		m.SetCSINode(g.csi[i])
	}
	for _, p := range g.pods {
		m.SetPod(p, false)
	}
	m.SetVirtualPods(nil, g.virtual)
}

// change binds pods, promises room and lets a node go before what runs on it.
func (g *generation) change(m *state.Mirror) {
	m.RecordCreatedClaim(g.claims[0], nil, []cluster.PodRef{kube.Ref(g.pods[0])})
	m.Nominate(g.claims[0].Name, []cluster.PodRef{kube.Ref(g.pods[1])})
	for i, p := range g.pods[1:] {
		bound := p.DeepCopy()
		bound.Spec.NodeName = g.nodes[i%len(g.nodes)].Name
		m.SetPod(bound, false)
		g.pods[1+i] = bound
	}
	for _, p := range g.pods[1:] {
		m.BeginEviction(p)
	}
}

// hide takes everything away, in any order.
func (g *generation) hide(m *state.Mirror, r *rand.Rand) {
	var steps []func()
	add := func(f func()) { steps = append(steps, f) }
	for i := range g.nodes {
		add(func() { m.RemoveNode(g.nodes[i]) })
		add(func() { m.RemoveClaim(g.claims[i]) })
		add(func() { m.RemoveCSINode(g.csi[i]) })
	}
	for _, p := range g.pods {
		add(func() { m.RemovePod(p) })
	}
	add(func() { m.RemoveNamespace(g.namespace) })
	add(func() { m.RemovePool(g.pool) })
	add(func() { m.RemoveCatalog(g.class) })
	add(func() { m.RemoveStorageClass(g.storage) })
	add(func() { m.RemoveVolume(g.volume) })
	add(func() { m.RemovePVC(g.disk) })
	add(func() { m.RemoveDaemon(g.daemon) })
	add(func() { m.RemovePDB(g.budget) })
	add(func() { m.SetVirtualPods([]string{g.virtual[0].UID}, nil) })
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}
}
