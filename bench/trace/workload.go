// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// Selection is the part of a record that is replayed.
type Selection struct {
	Scale int // every so many batches one is kept
	Bins  int // how many from the beginning; zero: all
	Seed  uint64
}

// Workload is the pods of a record. It is drawn anew for each side: both may keep what they are
// shown.
type Workload struct {
	bins []events
}

// events is what happens in a bin.
type events struct {
	at       time.Time
	arriving []*corev1.Pod
	budgets  []*policyv1.PodDisruptionBudget // of arriving Deployments
	ending   []types.UID
	over     []*policyv1.PodDisruptionBudget // of Deployments whose last pod ends
}

// begin is the time of the first bin.
var begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Workload draws the Deployments.
func (r *Record) Workload(s Selection) (*Workload, error) {
	if s.Scale < 1 || s.Bins < 0 {
		return nil, fmt.Errorf("of %d batches one cannot be kept, nor %d bins", s.Scale, s.Bins)
	}
	count := r.Bins
	if s.Bins > 0 {
		count = min(count, s.Bins)
	}
	w := &Workload{bins: make([]events, count)}
	for i := range w.bins {
		w.bins[i].at = begin.Add(time.Duration(i) * Bin)
	}
	for i := 0; i < len(r.Batches); i += s.Scale {
		if r.Batches[i].Bin < count {
			w.add(i, r.Batches[i], rand.New(rand.NewPCG(s.Seed, uint64(i))))
		}
	}
	return w, nil
}

// Pods counts all pods that come.
func (w *Workload) Pods() int {
	n := 0
	for _, b := range w.bins {
		n += len(b.arriving)
	}
	return n
}

// add adds a Deployment for each size in the batch.
func (w *Workload) add(number int, b Batch, r *rand.Rand) {
	bySize := map[string][]VM{}
	for _, vm := range b.VMs {
		bySize[sizeName(vm.Size)] = append(bySize[sizeName(vm.Size)], vm)
	}
	for k, size := range slices.Sorted(maps.Keys(bySize)) {
		w.deploy(b.Bin, fmt.Sprintf("b%06d-%d", number, k), bySize[size], r)
	}
}

func sizeName(a quantity.Amounts) string {
	return fmt.Sprintf("%06d-%015d", a[quantity.NameCPU], a[quantity.NameMemory])
}

// deploy adds the pods of one Deployment, and its budget, to the bins in which they come and go.
func (w *Workload) deploy(bin int, name string, vms []VM, r *rand.Rand) {
	at := &w.bins[bin]
	template := w.template(name, vms[0].Size, at.at)
	restrict(template, len(vms), r)
	budget := protect(template, len(vms), r)
	last := 0
	for i, vm := range vms {
		p := template.DeepCopy()
		p.Name = fmt.Sprintf("%s-%04d", name, i)
		p.UID = types.UID("pod-" + p.Name)
		at.arriving = append(at.arriving, p)
		end := Forever
		if vm.Most < Forever {
			end = bin + vm.Least + r.IntN(vm.Most-vm.Least+1)
		}
		last = max(last, end)
		if end < len(w.bins) {
			w.bins[end].ending = append(w.bins[end].ending, p.UID)
		}
	}
	if budget == nil {
		return
	}
	at.budgets = append(at.budgets, budget)
	if last < len(w.bins) {
		w.bins[last].over = append(w.bins[last].over, budget)
	}
}

// template is a pod that kube-scheduler marked unschedulable. It asks for nine tenths of the VM's
// size: a node keeps some of its own.
func (w *Workload) template(name string, size quantity.Amounts, at time.Time) *corev1.Pod {
	created := metav1.NewTime(at)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("replicaset-" + name)}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1.NamespaceDefault, CreationTimestamp: created, Labels: map[string]string{"app": name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
	asked := quantity.Amounts{}
	for resource, n := range size {
		asked[resource] = n * 9 / 10
	}
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: kube.ResourceList(asked)},
	}}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: created,
	}}
	return p
}

// mostApart is the largest Deployment whose pods may each ask for a node of their own.
const mostApart = 10

// restrict draws the rules about neighbours: a third of the Deployments is spread over zones, some
// small ones keep their pods on different nodes.
func restrict(p *corev1.Pod, replicas int, r *rand.Rand) {
	like := &metav1.LabelSelector{MatchLabels: p.Labels}
	switch draw := r.IntN(12); {
	case draw < 4:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: like,
		}}
	case draw < 5 && replicas <= mostApart:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: like}},
		}}
	}
}

// protect draws eviction limits: three in a hundred Deployments ask not to be disrupted, three have
// a PodDisruptionBudget that allows nothing, every third one that lets a quarter of its pods go.
func protect(p *corev1.Pod, replicas int, r *rand.Rand) *policyv1.PodDisruptionBudget {
	allowed := max(1, replicas/4)
	switch draw := r.IntN(100); {
	case draw < 3:
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		return nil
	case draw < 6:
		allowed = 0
	case draw >= 39:
		return nil
	}
	name := p.Labels["app"]
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: types.UID("pdb-" + name)}}
	most := intstr.FromInt32(int32(allowed))
	b.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: p.Labels}}
	b.Status.DisruptionsAllowed = int32(allowed)
	return b
}
