// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// Overprovisioned describes a cluster that became too large when its load shrank.
type Overprovisioned struct {
	Nodes int
	Seed  uint64
	// Free leaves out all that keeps pods or nodes where they are, and all rules about
	// neighbours: only resources and the choice of pools are left.
	Free bool
	// Budget is how many nodes of a pool may be disrupted at once, as a NodePool says it.
	Budget string
}

// Consolidate builds the cluster. It really was full once: Deployments came one
// after the other, and each pod went onto the first node with room, or else onto a
// new one of a size of its NodePool. Then most Deployments were scaled down,
// some to a fifth, some not at all.
//
// The region's sizes, prices and three zones are real. There are three pools: one
// on demand, one mostly on spot, one for batch work on spot.
func Consolidate(ctx context.Context, c Overprovisioned) (*Scenario, error) {
	types, err := region(ctx)
	if err != nil {
		return nil, err
	}
	s := &Scenario{
		Name: "consolidate", Types: withoutQuotas(withoutConstrained(types)), DaemonSets: azureDaemonSets(), Pools: consolidationPools(c.Budget),
		Settings: cluster.Settings{PreferenceSurplusPermille: 100},
	}
	b := &builder{want: c, Scenario: s, random: random{rand.New(rand.NewPCG(seed, c.Seed))}, open: map[poolZone][]*openNode{}}
	if err := b.fill(); err != nil {
		return nil, err
	}
	b.scaleDown()
	return s, nil
}

// withoutConstrained leaves out the sizes with cores turned off: they cost what the full ones do,
// and would make every decision of upstream's slower for nothing.
func withoutConstrained(types []offering.InstanceType) []offering.InstanceType {
	return slices.DeleteFunc(types, func(t offering.InstanceType) bool { return strings.Contains(t.Name, "-") })
}

// The pools of a shrunk cluster. Pods that name none may go to the first two.
const steady, flexible, batch = "steady", "flexible", "batch"

func consolidationPools(budget string) []*karpv1.NodePool {
	pool := func(name, taint string, capacityTypes ...string) *karpv1.NodePool {
		return azurePool(name, 10, taint, generalSizes(capacityTypes...)...)
	}
	pools := []*karpv1.NodePool{
		pool(steady, "", karpv1.CapacityTypeOnDemand),
		pool(flexible, "", karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand),
		pool(batch, batchTaint, karpv1.CapacityTypeSpot),
	}
	now := time.Duration(0)
	for _, p := range pools {
		p.Spec.Disruption = karpv1.Disruption{
			ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
			ConsolidateAfter:    karpv1.NillableDuration{Duration: &now},
			Budgets:             []karpv1.Budget{{Nodes: budget}},
		}
	}
	return pools
}

// sizesOf are the VM sizes that each NodePool launched: a few generations, a few shapes.
func sizesOf(pool string) []string {
	switch pool {
	case steady:
		return []string{"D4s_v5", "D8s_v3", "D8s_v5", "D8as_v5", "D16s_v5", "E4s_v5", "E8s_v5"}
	case flexible:
		return []string{"D4s_v5", "D8s_v4", "D8s_v5", "D16as_v5", "E8s_v5", "F8s_v2", "F16s_v2"}
	}
	return []string{"D8ls_v5", "D16s_v5", "F8s_v2", "F16s_v2"}
}

type builder struct {
	want Overprovisioned
	*Scenario
	random
	open map[poolZone][]*openNode
	// workloads are the Deployments that came, by number.
	workloads []*workload
}

// poolZone is a NodePool in a zone.
type poolZone struct{ pool, zone string }

// openNode is a node with room for pods.
type openNode struct {
	name string
	room quantity.Amounts
	apps map[int]int // pods of each workload
}

// workload is a Deployment.
type workload struct {
	id         int
	template   *corev1.Pod
	replicas   int
	pool, zone string // empty zone: any
	zoned      bool   // spread over zones
	perNode    int    // how many may share a node; 0 for any number
	byZone     map[string]int
	pods       []*corev1.Pod
}

// errFull ends the growth.
var errFull = fmt.Errorf("the cluster has all its nodes")

// fill lets Deployments come until the cluster has its nodes.
func (b *builder) fill() error {
	for len(b.Nodes) < b.want.Nodes {
		w := b.draw(len(b.workloads))
		b.workloads = append(b.workloads, w)
		for i := range w.replicas {
			if err := b.place(w, i); err == errFull {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// draw draws the next Deployment.
func (b *builder) draw(id int) *workload {
	w := &workload{id: id, pool: steady, byZone: map[string]int{}}
	w.replicas = min(oneOf(b.random, 2, 3, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200), max(4, b.want.Nodes/3))
	cpu := oneOf[int64](b.random, 50, 100, 100, 100, 200, 200, 250, 300, 500)
	p := pending("", requests(cpu, max(64, cpu*oneOf[int64](b.random, 512, 1024, 2048, 2048, 4096, 4096, 6144)/1000)))
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%04d", id)}
	switch draw := b.IntN(100); {
	case draw < 35:
		p.Spec.NodeSelector = map[string]string{"pool": steady}
	case draw < 85:
		w.pool = flexible
		if b.IntN(5) == 0 { // spot was short that day
			w.pool = steady
		}
	default:
		w.pool = batch
		selectPool(batch, batchTaint)(&p.Spec)
	}
	w.template = p
	if !b.want.Free {
		b.restrict(w)
	}
	return w
}

// restrict draws the rules about neighbours and about leaving.
func (b *builder) restrict(w *workload) {
	p, like := w.template, &metav1.LabelSelector{MatchLabels: w.template.Labels}
	spread := func(key string, skew int32) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: like,
		}}
	}
	switch draw := b.IntN(100); {
	case draw < 25:
		w.zoned = true
		spread(corev1.LabelTopologyZone, 1)
	case draw < 32:
		w.perNode, w.replicas = 2, min(w.replicas, 50)
		spread(corev1.LabelHostname, 2)
	case draw < 42:
		w.perNode, w.replicas = 1, min(w.replicas, max(2, b.want.Nodes/10), 30)
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{alike(p.Labels, corev1.LabelHostname)},
		}}
	case draw < 48:
		w.zone = oneOf(b.random, zones[:]...)
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[corev1.LabelTopologyZone] = w.zone
	}
	b.protect(w)
}

// protect draws eviction limits: most Deployments have a PodDisruptionBudget that
// allows some evictions, a few have one that allows none, and a few pods have the
// do-not-disrupt annotation.
func (b *builder) protect(w *workload) {
	allowed := max(1, w.replicas/4)
	switch draw := b.IntN(100); {
	case draw < 3 && w.replicas <= 12:
		w.template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		return
	case draw < 7 && w.replicas <= 20:
		allowed = 0
	case draw >= 70:
		return
	}
	most := intstr.FromInt(allowed)
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: meta("pdb", fmt.Sprintf("app-%04d", w.id))}
	pdb.Namespace = w.template.Namespace
	pdb.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: w.template.Labels}}
	pdb.Status.DisruptionsAllowed = int32(allowed)
	b.PDBs = append(b.PDBs, pdb)
}

// place puts the next replica on the first node of its NodePool and zone with room.
func (b *builder) place(w *workload, i int) error {
	p := w.template.DeepCopy()
	p.Name = fmt.Sprintf("app-%04d-%04d", w.id, i)
	p.UID = meta("pod", p.Name).UID
	p.OwnerReferences = []metav1.OwnerReference{ownedByReplicaSet(w.id)}
	at := poolZone{w.pool, b.zoneFor(w)}
	need := kube.Requests(p)
	node := b.find(at, w, need)
	if node == nil {
		var err error
		if node, err = b.launch(at, need); err != nil {
			return err
		}
	}
	node.room = node.room.Sub(need)
	node.apps[w.id]++
	w.byZone[at.zone]++
	run(p, node.name)
	w.pods = append(w.pods, p)
	return nil
}

func ownedByReplicaSet(id int) metav1.OwnerReference {
	rs := &appsv1.ReplicaSet{ObjectMeta: meta("replicaset", fmt.Sprintf("app-%04d", id))}
	return *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

// zoneFor is the zone for the next replica: the emptiest where they are spread.
func (b *builder) zoneFor(w *workload) string {
	switch {
	case w.zone != "":
		return w.zone
	case !w.zoned:
		return oneOf(b.random, zones[:]...)
	}
	return slices.MinFunc(zones[:], func(x, y string) int { return w.byZone[x] - w.byZone[y] })
}

func (b *builder) find(at poolZone, w *workload, need quantity.Amounts) *openNode {
	for _, n := range b.open[at] {
		if (w.perNode == 0 || n.apps[w.id] < w.perNode) && holds(n.room, need) {
			return n
		}
	}
	return nil
}

func holds(room, need quantity.Amounts) bool {
	for name, n := range need {
		if n > room[name] {
			return false
		}
	}
	return true
}

// maxOpen is how many nodes of a NodePool and zone may take pods: the oldest are full.
const maxOpen = 100

// launch adds a node of one of the NodePool's sizes.
func (b *builder) launch(at poolZone, need quantity.Amounts) (*openNode, error) {
	if len(b.Nodes) == b.want.Nodes {
		return nil, errFull
	}
	m := Instance{Name: serial("node", len(b.Nodes)), Pool: at.pool, Zone: at.zone, CapacityType: b.capacityType(at.pool)}
	m.Type = "Standard_" + oneOf(b.random, sizesOf(at.pool)...)
	node, claim, daemons, err := b.Node(m)
	if err != nil {
		return nil, err
	}
	n := &openNode{name: node.Name, room: kube.Amounts(node.Status.Allocatable), apps: map[int]int{}}
	for _, d := range daemons {
		n.room = n.room.Sub(kube.Requests(d))
	}
	if !holds(n.room, need) {
		return nil, fmt.Errorf("a new %s has no room for a pod", m.Type)
	}
	b.Nodes, b.Claims, b.Bound = append(b.Nodes, node), append(b.Claims, claim), append(b.Bound, daemons...)
	b.open[at] = append(b.open[at], n)
	if list := b.open[at]; len(list) > maxOpen {
		b.open[at] = list[1:]
	}
	return n, nil
}

// capacityType of the next node of a pool: spot is short now and then.
func (b *builder) capacityType(pool string) string {
	if pool == steady || pool == flexible && b.IntN(5) == 0 {
		return offering.OnDemand
	}
	return offering.Spot
}

// scaleDown scales Deployments down, each by its own factor, and removes random replicas.
func (b *builder) scaleDown() {
	for _, w := range b.workloads {
		keep := len(w.pods)
		if b.IntN(10) >= 3 {
			keep = max(1, keep*oneOf(b.random, 20, 30, 50, 60, 80)/100)
		}
		b.Shuffle(len(w.pods), func(i, j int) { w.pods[i], w.pods[j] = w.pods[j], w.pods[i] })
		b.Bound = append(b.Bound, w.pods[:min(keep, len(w.pods))]...)
	}
}
