// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// Annotations that the volume controllers and administrators set.
const (
	annotationBound       = "pv.kubernetes.io/bind-completed"
	annotationDefault     = "storageclass.kubernetes.io/is-default-class"
	annotationDefaultBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Storage holds the cluster's PersistentVolumeClaims, PersistentVolumes and StorageClasses, and
// derives what the volumes of a pod require of a node. The objects it was given must not be
// changed. The zero Storage is not usable; see NewStorage.
type Storage struct {
	PVCs           map[types.NamespacedName]*corev1.PersistentVolumeClaim
	Volumes        map[string]*corev1.PersistentVolume
	StorageClasses map[string]*storagev1.StorageClass
	csi            csitranslation.CSITranslator
}

// NewStorage returns an empty Storage.
func NewStorage() *Storage {
	return &Storage{
		PVCs:           map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		Volumes:        map[string]*corev1.PersistentVolume{},
		StorageClasses: map[string]*storagev1.StorageClass{},
		csi:            csitranslation.New(),
	}
}

// SetPVC adds or replaces a PersistentVolumeClaim.
func (s *Storage) SetPVC(c *corev1.PersistentVolumeClaim) {
	s.PVCs[client.ObjectKeyFromObject(c)] = c
}

// SetVolume adds or replaces a PersistentVolume.
func (s *Storage) SetVolume(v *corev1.PersistentVolume) { s.Volumes[v.Name] = v }

// SetStorageClass adds or replaces a StorageClass. It reports false when both versions treat
// volumes that are not yet provisioned alike.
func (s *Storage) SetStorageClass(c *storagev1.StorageClass) (changed bool) {
	old := s.StorageClasses[c.Name]
	s.StorageClasses[c.Name] = c
	return !sameClass(old, c)
}

func sameClass(a, b *storagev1.StorageClass) bool {
	return a != nil && isDefault(a) == isDefault(b) && a.Provisioner == b.Provisioner &&
		a.CreationTimestamp.Equal(&b.CreationTimestamp) &&
		reflect.DeepEqual(a.VolumeBindingMode, b.VolumeBindingMode) &&
		reflect.DeepEqual(a.AllowedTopologies, b.AllowedTopologies)
}

// Mount fills in the volumes of p in w, which was converted from p. It refuses the pod when one of
// its volumes cannot be mounted anywhere for now. A bound pod keeps the volumes that are known:
// they use up attachments.
func (s *Storage) Mount(w *cluster.Pod, p *corev1.Pod) {
	w.ExclusiveClaims = s.exclusiveOf(p)
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		mounted, fault := s.mount(p, v)
		if fault != "" {
			pvc, _ := pvcOf(p, v) // only volumes with a PersistentVolumeClaim have faults
			podRefusal{reason.Volumes, fault, map[string]any{"field": "volumes", "volume": v.Name, "claim": pvc.String()}}.applyTo(w)
		}
		if mounted.ID != "" {
			w.Volumes = append(w.Volumes, mounted)
		}
	}
}

// mount returns what one volume requires; the zero Volume requires nothing. fault says why the
// volume cannot be mounted at all.
func (s *Storage) mount(p *corev1.Pod, v *corev1.Volume) (out cluster.Volume, fault string) {
	key, ok := pvcOf(p, v)
	if !ok {
		return s.inline(p, v), ""
	}
	c := s.PVCs[key]
	switch {
	case c == nil && v.Ephemeral != nil:
		out, fault = s.ephemeral(key, v.Ephemeral)
	case c == nil:
		return out, fmt.Sprintf("PersistentVolumeClaim %s does not exist: create it", key)
	case v.Ephemeral != nil && !metav1.IsControlledBy(c, p):
		return out, fmt.Sprintf("PersistentVolumeClaim %s was not made for this pod's ephemeral volume: delete or rename one of them", key)
	default:
		out, fault = s.existingPVC(c)
	}
	out.Shared = v.Ephemeral == nil && shared(c, p)
	return out, fault
}

// pvcOf names the PersistentVolumeClaim behind a pod's volume; false when there is none.
func pvcOf(p *corev1.Pod, v *corev1.Volume) (types.NamespacedName, bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return types.NamespacedName{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, true
	case v.Ephemeral != nil:
		return types.NamespacedName{Namespace: p.Namespace, Name: p.Name + "-" + v.Name}, true
	}
	return types.NamespacedName{}, false
}

// PVCsOf lists the PersistentVolumeClaims behind a pod's volumes.
func PVCsOf(p *corev1.Pod) []types.NamespacedName {
	var out []types.NamespacedName
	for i := range p.Spec.Volumes {
		if key, ok := pvcOf(p, &p.Spec.Volumes[i]); ok {
			out = append(out, key)
		}
	}
	return out
}

// shared reports whether another pod may mount the PersistentVolumeClaim at the same time. One
// made from a StatefulSet's template belongs to one pod by its name.
func shared(c *corev1.PersistentVolumeClaim, p *corev1.Pod) bool {
	if c == nil || exclusive(c) {
		return false
	}
	return !(ownedBy(p, "apps/v1", "StatefulSet") && strings.HasSuffix(c.Name, "-"+p.Name))
}

// Exclusive reports whether only one pod at a time may use the claim (ReadWriteOncePod).
func (s *Storage) Exclusive(key types.NamespacedName) bool {
	c := s.PVCs[key]
	return c != nil && exclusive(c)
}

func exclusive(c *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// exclusiveOf lists the claims behind a pod's volumes that one pod at a time may use, each once.
func (s *Storage) exclusiveOf(p *corev1.Pod) []string {
	var out []string
	for _, key := range PVCsOf(p) {
		if s.Exclusive(key) && !slices.Contains(out, key.String()) {
			out = append(out, key.String())
		}
	}
	return out
}

// inline is a disk that the pod names itself by an in-tree volume type. Other volumes without a
// PersistentVolumeClaim attach nothing.
func (s *Storage) inline(p *corev1.Pod, v *corev1.Volume) cluster.Volume {
	if !inTreeInline(v) || !s.csi.IsInlineMigratable(v) {
		return cluster.Volume{}
	}
	pv, err := s.csi.TranslateInTreeInlineVolumeToCSI(klog.Background(), v, p.Namespace)
	if err != nil || pv.Spec.CSI == nil {
		return cluster.Volume{} // it names no disk that could be counted
	}
	return cluster.Volume{ID: attached(pv.Spec.CSI), Driver: pv.Spec.CSI.Driver, Shared: true}
}

func inTreeInline(v *corev1.Volume) bool {
	return v.AzureDisk != nil || v.AzureFile != nil || v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil ||
		v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// existingPVC resolves a PersistentVolumeClaim that exists. The cases in which the scheduler would
// not place the pod on any node are faults.
func (s *Storage) existingPVC(c *corev1.PersistentVolumeClaim) (cluster.Volume, string) {
	key := client.ObjectKeyFromObject(c)
	switch {
	case c.DeletionTimestamp != nil:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is being deleted", key)
	case c.Status.Phase == corev1.ClaimLost:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s has lost its PersistentVolume %s", key, c.Spec.VolumeName)
	case c.Spec.VolumeName == "":
		return s.unbound(key, ptr.Deref(c.Spec.StorageClassName, ""))
	}
	out, fault := s.bound(key, c.Spec.VolumeName)
	if _, done := c.Annotations[annotationBound]; !done && fault == "" {
		fault = fmt.Sprintf("PersistentVolumeClaim %s names PersistentVolume %s but is not bound to it yet: it lacks the annotation %s", key, c.Spec.VolumeName, annotationBound)
	}
	return out, fault
}

func (s *Storage) bound(pvc types.NamespacedName, name string) (cluster.Volume, string) {
	pv := s.Volumes[name]
	switch {
	case pv == nil:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is bound to PersistentVolume %s, which does not exist", pvc, name)
	case pv.DeletionTimestamp != nil:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is bound to PersistentVolume %s, which is being deleted", pvc, name)
	}
	out := cluster.Volume{ID: pvc.String(), AnyOf: places(pv)}
	if source := s.source(pv); source != nil {
		out.ID, out.Driver = attached(source), source.Driver
	}
	return out, ""
}

// source is the volume as the CSI driver identifies it, also for an in-tree volume type; nil when
// nothing is attached.
func (s *Storage) source(pv *corev1.PersistentVolume) *corev1.CSIPersistentVolumeSource {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI
	}
	if !s.csi.IsPVMigratable(pv) {
		return nil
	}
	translated, err := s.csi.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return nil // malformed: the kubelet reports it
	}
	return translated.Spec.CSI
}

func attached(source *corev1.CSIPersistentVolumeSource) string {
	return source.Driver + "/" + source.VolumeHandle
}

// zoneLabels tie a PersistentVolume with them to nodes with one of their values. Values are separated
// by "__".
var zoneLabels = []string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// places are the alternatives where the volume can be mounted: those of its node affinity, each
// together with its zone labels (kube-scheduler's plugin VolumeZone).
func places(pv *corev1.PersistentVolume) []cluster.Term {
	var zoned cluster.Term
	for _, label := range zoneLabels {
		values := strings.Split(pv.Labels[label], "__")
		if !slices.Contains(values, "") { // kube-scheduler ignores such labels
			zoned = append(zoned, constraint.Rule{Key: normal(label), Operator: constraint.In, Values: values})
		}
	}
	out := nodeAffinity(pv)
	if len(zoned) == 0 {
		return out
	}
	if len(out) == 0 {
		return []cluster.Term{zoned}
	}
	for i := range out {
		out[i] = slices.Concat(out[i], zoned)
	}
	return out
}

// nodeAffinity are the alternatives of the volume's node affinity. A volume on a node's own disk is
// tied to that node by name; Karpenter lets the pod move, and so does karve.
func nodeAffinity(pv *corev1.PersistentVolume) []cluster.Term {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	local := pv.Spec.Local != nil || pv.Spec.HostPath != nil
	var out []cluster.Term
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if len(t.MatchExpressions) == 0 {
			continue
		}
		term := expressions(t.MatchExpressions)
		if local {
			term = slices.DeleteFunc(term, func(r constraint.Rule) bool { return r.Key == corev1.LabelHostname })
		}
		if len(term) == 0 {
			return nil // one alternative is satisfied by every node
		}
		out = append(out, term)
	}
	return out
}

// unbound resolves a PersistentVolumeClaim whose volume is provisioned when its first pod has a
// node.
func (s *Storage) unbound(pvc types.NamespacedName, name string) (cluster.Volume, string) {
	class := s.StorageClasses[name]
	switch {
	case name == "":
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is unbound and names no StorageClass: name one, or make a volume for it", pvc)
	case class == nil:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is unbound and its StorageClass %s does not exist: create it", pvc, name)
	case ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingImmediate:
		return cluster.Volume{}, fmt.Sprintf("PersistentVolumeClaim %s is unbound, and StorageClass %s (volumeBindingMode Immediate) binds claims before their pods are placed: wait for its volume", pvc, name)
	}
	return cluster.Volume{ID: pvc.String(), Driver: s.driver(class), AnyOf: topologies(class)}, ""
}

// ephemeral resolves an ephemeral volume whose PersistentVolumeClaim has not been created yet.
func (s *Storage) ephemeral(pvc types.NamespacedName, e *corev1.EphemeralVolumeSource) (cluster.Volume, string) {
	name := ""
	if e.VolumeClaimTemplate != nil && e.VolumeClaimTemplate.Spec.StorageClassName != nil {
		name = *e.VolumeClaimTemplate.Spec.StorageClassName
	} else if class := s.defaultClass(); class != nil {
		name = class.Name
	}
	return s.unbound(pvc, name)
}

// defaultClass is the newest StorageClass marked as default, the first by name if several are
// equally new; nil when there is none.
func (s *Storage) defaultClass() *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, c := range s.StorageClasses {
		if !isDefault(c) {
			continue
		}
		if best == nil || cmp.Or(c.CreationTimestamp.Compare(best.CreationTimestamp.Time), strings.Compare(best.Name, c.Name)) > 0 {
			best = c
		}
	}
	return best
}

func isDefault(c *storagev1.StorageClass) bool {
	return c.Annotations[annotationDefault] == "true" || c.Annotations[annotationDefaultBeta] == "true"
}

func (s *Storage) driver(c *storagev1.StorageClass) string {
	if name, err := s.csi.GetCSINameFromInTreeName(c.Provisioner); err == nil {
		return name
	}
	return c.Provisioner
}

// topologies are the alternatives of a class's allowedTopologies.
func topologies(c *storagev1.StorageClass) []cluster.Term {
	var out []cluster.Term
	for _, t := range c.AllowedTopologies {
		term := make(cluster.Term, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			term = append(term, constraint.Rule{Key: normal(e.Key), Operator: constraint.In, Values: e.Values})
		}
		if len(term) > 0 {
			out = append(out, term)
		}
	}
	return out
}
