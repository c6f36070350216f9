// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/quantity"
)

// objects writes a script's cluster as Kubernetes objects, and keeps those that
// nodes and pods only refer to.
type objects struct {
	script     *enginetest.Script
	namespaces map[string]bool
	claims     map[string]string // claim name by what is known of the volume
	unmade     map[string]bool   // by the same, volumes still to be made
	kept       []runtime.Object
}

// newObjects asks unmade of each volume that may still have to be made whether it does;
// nil means that none does.
func newObjects(s *enginetest.Script, unmade func() bool) *objects {
	o := &objects{script: s, namespaces: map[string]bool{}, claims: map[string]string{}, unmade: map[string]bool{}}
	if unmade != nil {
		o.chooseUnmade(unmade)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Namespaces)) {
		o.namespace(name)
	}
	for _, p := range s.Pods {
		o.namespace(p.Namespace)
		for _, v := range p.Volumes {
			o.claim(p.Namespace, v)
			if p.Terminating { // see endedPod; claims must exist from the start
				o.claim("ended", v)
			}
		}
	}
	return o
}

// others are the namespaces, volumes, claims and CSINodes so far.
func (o *objects) others() []runtime.Object { return o.kept }

// namespace keeps the namespace of that name and returns the name: none is "default".
func (o *objects) namespace(name string) string {
	known := name
	if known == "" {
		known = corev1.NamespaceDefault
	}
	if !o.namespaces[known] {
		o.namespaces[known] = true
		o.kept = append(o.kept, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: known, Labels: o.script.Namespaces[name]}})
	}
	return known
}

// nodeName is the Kubernetes name of a node, or the one it will have.
func nodeName(n cluster.Node) string {
	if n.Name == "" {
		return n.Key
	}
	return n.Name
}

// node writes a node that exists or is on its way. One that leaves or is unschedulable
// matchesSelector the taint that keeps pods off it meanwhile.
func (o *objects) node(n cluster.Node) *corev1.Node {
	name := nodeName(n)
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if labels[cluster.LabelHostname] == "" {
		labels[cluster.LabelHostname] = name // every kubelet sets it
	}
	out := o.bare(name, labels, n.Taints, n.Allocatable)
	if n.MarkedForDeletion {
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
	}
	if n.TakesNoPods {
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}

// bare writes a node of these properties and keeps its attach limits.
func (o *objects) bare(name string, labels map[string]string, taints []cluster.Taint, room quantity.Amounts) *corev1.Node {
	var written []corev1.Taint
	for _, t := range taints {
		written = append(written, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	n, csi := NewNode(name, labels, written, room)
	o.kept = append(o.kept, csi)
	return n
}

// NewNode writes a node of these properties, and the CSINode with its attach limits.
func NewNode(name string, labels map[string]string, taints []corev1.Taint, room quantity.Amounts) (*corev1.Node, *storagev1.CSINode) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}}
	n.Spec.Taints = taints
	for _, t := range taints {
		n.Spec.Unschedulable = n.Spec.Unschedulable || t.Key == corev1.TaintNodeUnschedulable // as kubectl cordon sets both
	}
	n.Status.Allocatable = resources(room)
	n.Status.Capacity = n.Status.Allocatable
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, resource := range room.Names() {
		if driver, ok := strings.CutPrefix(resource, quantity.Attachable); ok {
			limit := int32(max(0, min(room[resource], 1<<30)))
			csi.Spec.Drivers = append(csi.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}})
		}
	}
	return n, csi
}

// resources writes amounts, without attach limits: those are not the node's own.
func resources(a quantity.Amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, n := range a {
		n = max(0, n)
		switch {
		case strings.HasPrefix(name, quantity.Attachable):
		case name == quantity.NameCPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}

// pod writes a pod that is bound nowhere yet.
func (o *objects) pod(p cluster.Pod) *corev1.Pod {
	out := o.body(p)
	out.Labels = p.Labels
	if p.Terminating && p.Node != "" {
		end := metav1.NewTime(time.Unix(0, 0))
		out.DeletionTimestamp = &end
	}
	out.Spec.Tolerations = tolerations(p.Tolerations)
	out.Spec.Affinity = affinity(p)
	for _, s := range p.Spreads {
		out.Spec.TopologySpreadConstraints = append(out.Spec.TopologySpreadConstraints, spread(s))
	}
	return out
}

// endedPod writes the resources, ports and volumes that an ended pod still holds, in a namespace
// of its own where app!=web does not find it.
func (o *objects) endedPod(p cluster.Pod) *corev1.Pod {
	p.Namespace = "ended"
	return o.body(p)
}

// body writes the resources, ports and volumes of a pod.
func (o *objects) body(p cluster.Pod) *corev1.Pod {
	requests := resources(p.Requests)
	delete(requests, corev1.ResourcePods) // every pod is one without saying so
	main := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}
	for _, port := range p.Ports {
		main.Ports = append(main.Ports, corev1.ContainerPort{ContainerPort: port.Port, HostPort: port.Port, HostIP: port.IP, Protocol: corev1.Protocol(port.Protocol)})
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace(p.Namespace), Name: p.Name, UID: types.UID(p.UID)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{main}},
	}
	for i, v := range p.Volumes {
		out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: o.claim(p.Namespace, v)},
		}})
	}
	return out
}

// daemon writes the pod that a DaemonSet puts on one node.
func (o *objects) daemon(d cluster.DaemonSet, node string) *corev1.Pod {
	name := fmt.Sprintf("%s-on-%s", d.UID, node)
	return o.pod(cluster.Pod{
		PodRef:   cluster.PodRef{Namespace: d.Namespace, Name: name, UID: name},
		Requests: d.Requests, Required: d.Required, AnyOf: d.AnyOf, Tolerations: d.Tolerations,
	})
}

// portHolder writes a pod that takes nothing but the ports of a DaemonSet's pod on one node,
// in a namespace of its own; nil when there are none.
func (o *objects) portHolder(d cluster.DaemonSet, node string) *corev1.Pod {
	if len(d.Ports) == 0 {
		return nil
	}
	name := fmt.Sprintf("%s-ports-on-%s", d.UID, node)
	return o.endedPod(cluster.Pod{PodRef: cluster.PodRef{Name: name, UID: name}, Ports: d.Ports})
}

// chooseUnmade picks volumes to be made: those that one pending pod alone mounts and that a
// StorageClass can describe.
func (o *objects) chooseUnmade(pick func() bool) {
	mounted := map[string]int{}
	for _, p := range o.script.Pods {
		for _, v := range p.Volumes {
			mounted[v.ID]++
		}
	}
	for _, p := range o.script.Pods {
		for _, v := range p.Volumes {
			if _, ok := topologies(v.AnyOf); p.Node == "" && !v.Shared && v.Driver != zoneLabelDriver && mounted[v.ID] == 1 && ok && pick() {
				o.unmade[known(p.Namespace, v)] = true
			}
		}
	}
}

func known(namespace string, v cluster.Volume) string {
	return fmt.Sprintf("%q %q %q %v", namespace, v.ID, v.Driver, v.AnyOf)
}

// claim keeps a claim with its volume or StorageClass, and returns the claim's name.
// Claims with one volume ID share one volume.
func (o *objects) claim(namespace string, v cluster.Volume) string {
	key := known(namespace, v)
	if name, ok := o.claims[key]; ok {
		return name
	}
	name := fmt.Sprintf("claim-%d", len(o.claims)+1)
	o.claims[key] = name
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace(namespace), Name: name, ResourceVersion: "1"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	if !v.Shared {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	if o.unmade[key] {
		o.wait(claim, v)
	} else {
		o.bind(claim, v)
	}
	o.kept = append(o.kept, claim)
	return name
}

// zoneLabelDriver is the driver of volumes that say by a label in which zones they are, and not by node
// affinity: scripts with such volumes give them one term over the zone.
const zoneLabelDriver = "zone-label"

// bind keeps the volume that the claim is bound to.
func (o *objects) bind(claim *corev1.PersistentVolumeClaim, v cluster.Volume) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-of-" + claim.Name, ResourceVersion: "1"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
	volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/" + claim.Name} // nothing is attached for it
	if v.Driver != "" {
		volume.Spec.HostPath = nil
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v.Driver, VolumeHandle: v.ID}
	}
	if v.Driver == zoneLabelDriver {
		volume.Labels = map[string]string{corev1.LabelTopologyZone: strings.Join(v.AnyOf[0][0].Values, "__")}
	} else if where := nodeSelector(nil, v.AnyOf); where != nil {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: where}
	}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName = volume.Name
	claim.Status.Phase = corev1.ClaimBound
	o.kept = append(o.kept, volume)
}

// wait keeps a class that makes the claim's volume once its pod has a node.
func (o *objects) wait(claim *corev1.PersistentVolumeClaim, v cluster.Volume) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "class-of-" + claim.Name},
		Provisioner: v.Driver, VolumeBindingMode: &mode,
	}
	if class.Provisioner == "" {
		class.Provisioner = "unattached.example.com"
	}
	class.AllowedTopologies, _ = topologies(v.AnyOf)
	claim.Spec.StorageClassName = &class.Name
	claim.Status.Phase = corev1.ClaimPending
	o.kept = append(o.kept, class)
}

// topologies writes alternatives as a StorageClass has them, false when it cannot.
func topologies(anyOf []cluster.Term) ([]corev1.TopologySelectorTerm, bool) {
	var out []corev1.TopologySelectorTerm
	for _, alternative := range anyOf {
		var term corev1.TopologySelectorTerm
		for _, r := range alternative {
			if r.Operator != constraint.In || len(r.Values) == 0 {
				return nil, false
			}
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{Key: r.Key, Values: r.Values})
		}
		if len(term.MatchLabelExpressions) == 0 {
			return nil, false // one empty alternative: the class would say anywhere with none
		}
		out = append(out, term)
	}
	return out, true
}
