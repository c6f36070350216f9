// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/kube"
)

const azureDisk = "disk.csi.azure.com"

// mounting is a pod that mounts claims of its namespace.
func mounting(name string, claims ...string) *corev1.Pod {
	p := pendingPod(name)
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

// ephemeral is a pod with one generic ephemeral volume called scratch.
func ephemeral(class *string) *corev1.Pod {
	p := pendingPod("e")
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class}}}}}}
	return p
}

func unboundClaim(name, class string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.StorageClassName = &class
	return c
}

func boundClaim(name, volume string) *corev1.PersistentVolumeClaim {
	c := unboundClaim(name, "late")
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	c.Spec.VolumeName = volume
	c.Status.Phase = corev1.ClaimBound
	return c
}

func csiVolume(name string, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: azureDisk, VolumeHandle: "handle-" + name}
	return tiedTo(v, terms...)
}

func tiedTo(v *corev1.PersistentVolume, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	return v
}

func zoned(key string, zones ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: zones}}}
}

func storageClass(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

func late(name string) *storagev1.StorageClass {
	return storageClass(name, azureDisk, storagev1.VolumeBindingWaitForFirstConsumer)
}

func marked(c *storagev1.StorageClass, created int64) *storagev1.StorageClass {
	c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	c.CreationTimestamp = metav1.Unix(created, 0)
	return c
}

// stored is the Storage of these objects.
func stored(objects ...any) *kube.Storage {
	s := kube.NewStorage()
	for _, x := range objects {
		switch x := x.(type) {
		case *corev1.PersistentVolumeClaim:
			s.SetPVC(x)
		case *corev1.PersistentVolume:
			s.SetVolume(x)
		case *storagev1.StorageClass:
			s.SetStorageClass(x)
		}
	}
	return s
}

func mount(s *kube.Storage, p *corev1.Pod) cluster.Pod {
	w := kube.Pod(p, time.Time{})
	s.Mount(&w, p)
	return w
}

// Rule VOLUME-2 and Rule VOLUME-6.
func TestVolumes(t *testing.T) {
	inTree := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
	inTree.Spec.AzureDisk = &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/s/d"}
	onDisk := tiedTo(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local"}}, zoned(corev1.LabelHostname, "n1"))
	onDisk.Spec.Local = &corev1.LocalVolumeSource{Path: "/x"}
	onDiskInZone := onDisk.DeepCopy()
	onDiskInZone.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions = append(
		onDiskInZone.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions, zoned(corev1.LabelTopologyZone, "z1").MatchExpressions...)
	labelled := csiVolume("pv")
	labelled.Labels = map[string]string{corev1.LabelTopologyZone: "z1__z2"}
	oddlyLabelled := csiVolume("pv")
	oddlyLabelled.Labels = map[string]string{corev1.LabelTopologyZone: "z1____z2", corev1.LabelTopologyRegion: ""}
	tiedAndLabelled := csiVolume("pv", zoned(corev1.LabelTopologyZone, "z1", "z3"))
	tiedAndLabelled.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "z1"}
	nfs := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "nfs"}}
	nfs.Spec.NFS = &corev1.NFSVolumeSource{Server: "s"}
	restricted := late("late")
	restricted.AllowedTopologies = []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelFailureDomainBetaZone, Values: []string{"z1", "z2"}}}}, {},
	}
	alone := boundClaim("data", "pv")
	alone.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	ofSet := mounting("db-0", "data-db-0")
	ofSet.OwnerReferences = owned("StatefulSet", "apps/v1").OwnerReferences
	made := unboundClaim("e-scratch", "late")
	made.OwnerReferences = []metav1.OwnerReference{{UID: "uid-e", Controller: new(true)}}
	inline := pendingPod("i")
	inline.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/s/d"}}}}
	empty := pendingPod("m")
	empty.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}

	inZ := func(zones ...string) []cluster.Term { return []cluster.Term{{in(cluster.LabelZone, zones...)}} }
	data := mounting("a", "data")
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		in   *kube.Storage
		want []cluster.Volume
	}{
		{"bound, either of two zones", data, stored(boundClaim("data", "pv"), csiVolume("pv", zoned(corev1.LabelTopologyZone, "z1"), zoned(corev1.LabelFailureDomainBetaZone, "z2"))),
			[]cluster.Volume{{ID: "disk.csi.azure.com/handle-pv", Driver: azureDisk, Shared: true, AnyOf: append(inZ("z1"), inZ("z2")...)}}},
		{"bound, in the zones of its label", data, stored(boundClaim("data", "pv"), labelled),
			[]cluster.Volume{{ID: "disk.csi.azure.com/handle-pv", Driver: azureDisk, Shared: true, AnyOf: inZ("z1", "z2")}}},
		{"bound, with labels that name no zone", data, stored(boundClaim("data", "pv"), oddlyLabelled),
			[]cluster.Volume{{ID: "disk.csi.azure.com/handle-pv", Driver: azureDisk, Shared: true}}},
		{"bound, in zones that label and node affinity name", data, stored(boundClaim("data", "pv"), tiedAndLabelled),
			[]cluster.Volume{{ID: "disk.csi.azure.com/handle-pv", Driver: azureDisk, Shared: true, AnyOf: []cluster.Term{slices.Concat(inZ("z1", "z3")[0], inZ("z1")[0])}}}},
		{"a disk in the form of old", data, stored(boundClaim("data", "old"), inTree),
			[]cluster.Volume{{ID: "disk.csi.azure.com//subscriptions/s/d", Driver: azureDisk, Shared: true}}},
		{"the same named by the pod itself", inline, stored(), []cluster.Volume{{ID: "disk.csi.azure.com//subscriptions/s/d", Driver: azureDisk, Shared: true}}},
		{"a file share attaches nothing", data, stored(boundClaim("data", "nfs"), nfs), []cluster.Volume{{ID: "default/data", Shared: true}}},
		{"a local volume lets its node go", data, stored(boundClaim("data", "local"), onDisk), []cluster.Volume{{ID: "default/data", Shared: true}}},
		{"but not its zone", data, stored(boundClaim("data", "local"), onDiskInZone), []cluster.Volume{{ID: "default/data", Shared: true, AnyOf: inZ("z1")}}},
		{"to be made later", data, stored(unboundClaim("data", "late"), late("late")), []cluster.Volume{{ID: "default/data", Driver: azureDisk, Shared: true}}},
		{"to be made later, in these zones", data, stored(unboundClaim("data", "late"), restricted), []cluster.Volume{{ID: "default/data", Driver: azureDisk, Shared: true, AnyOf: inZ("z1", "z2")}}},
		{"to be made by a provisioner of old", data, stored(unboundClaim("data", "late"), storageClass("late", "kubernetes.io/azure-disk", storagev1.VolumeBindingWaitForFirstConsumer)),
			[]cluster.Volume{{ID: "default/data", Driver: azureDisk, Shared: true}}},
		{"one pod only", data, stored(alone, csiVolume("pv")), []cluster.Volume{{ID: "disk.csi.azure.com/handle-pv", Driver: azureDisk}}},
		{"a StatefulSet's own", ofSet, stored(unboundClaim("data-db-0", "late"), late("late")), []cluster.Volume{{ID: "default/data-db-0", Driver: azureDisk}}},
		{"ephemeral, claim not made yet", ephemeral(new("late")), stored(late("late")), []cluster.Volume{{ID: "default/e-scratch", Driver: azureDisk}}},
		{"ephemeral, claim made", ephemeral(new("late")), stored(late("late"), made), []cluster.Volume{{ID: "default/e-scratch", Driver: azureDisk}}},
		{"ephemeral, newest default class", ephemeral(nil), stored(marked(storageClass("a", "other", storagev1.VolumeBindingWaitForFirstConsumer), 1), marked(late("b"), 2)),
			[]cluster.Volume{{ID: "default/e-scratch", Driver: azureDisk}}},
		{"nothing to attach", empty, stored(), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := mount(tc.in, tc.pod)
			if diff := cmp.Diff(tc.want, w.Volumes); diff != "" || w.Refused != "" {
				t.Errorf("refused %q (%s): %s", w.Refused, w.RefusedDetail, diff)
			}
		})
	}
}

// Every case in which the scheduler would place the pod nowhere, and launching a node would not
// help.
//
// Rule VOLUME-2.
func TestVolumesThatRefusePods(t *testing.T) {
	leaving := &metav1.Time{Time: time.Unix(1, 0)}
	deleted := unboundClaim("data", "late")
	deleted.DeletionTimestamp = leaving
	lost := boundClaim("data", "pv")
	lost.Status.Phase = corev1.ClaimLost
	goingVolume := csiVolume("pv")
	goingVolume.DeletionTimestamp = leaving
	half := boundClaim("data", "pv")
	half.Annotations = nil
	classless := unboundClaim("data", "late")
	classless.Spec.StorageClassName = nil
	data := mounting("a", "data")
	for _, tc := range []struct {
		pod  *corev1.Pod
		in   *kube.Storage
		want string
	}{
		{data, stored(), "PersistentVolumeClaim default/data does not exist"},
		{data, stored(deleted, late("late")), "is being deleted"},
		{data, stored(lost, csiVolume("pv")), "has lost its PersistentVolume pv"},
		{data, stored(boundClaim("data", "pv")), "PersistentVolume pv, which does not exist"},
		{data, stored(boundClaim("data", "pv"), goingVolume), "PersistentVolume pv, which is being deleted"},
		{data, stored(half, csiVolume("pv")), "lacks the annotation pv.kubernetes.io/bind-completed"},
		{data, stored(classless), "names no StorageClass"},
		{data, stored(unboundClaim("data", "")), "names no StorageClass"},
		{data, stored(unboundClaim("data", "late")), "StorageClass late does not exist"},
		{data, stored(unboundClaim("data", "now"), storageClass("now", azureDisk, storagev1.VolumeBindingImmediate)), "volumeBindingMode Immediate"},
		{data, stored(unboundClaim("data", "now"), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}}), "volumeBindingMode Immediate"},
		{ephemeral(nil), stored(late("late")), "names no StorageClass"},
		{ephemeral(new("gone")), stored(marked(late("late"), 1)), "StorageClass gone does not exist"},
		{ephemeral(new("late")), stored(late("late"), unboundClaim("e-scratch", "late")), "was not made for this pod"},
		{mounting("a", "fine", "data"), stored(boundClaim("fine", "pv"), csiVolume("pv")), "default/data does not exist"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			w := mount(tc.in, tc.pod)
			if w.Refused != reason.Volumes || !strings.Contains(w.RefusedDetail, tc.want) {
				t.Errorf("refused %q (%s), want %q", w.Refused, w.RefusedDetail, tc.want)
			}
			if claim := w.RefusedFacts.Text("claim"); claim == "" || !strings.Contains(w.RefusedDetail, claim) {
				t.Errorf("facts %v", w.RefusedFacts)
			}
		})
	}
}

// A pod waits for its volume, and is looked at again when anything about it changes.
func TestPodIsWokenWhenItsVolumeCanBeMounted(t *testing.T) {
	var woken []string
	m := NewMirror(func(pod string) { woken = append(woken, pod) })
	m.SetPod(mounting("a", "data"), false)
	refused := func() string { return m.parts.builder.pods["uid-a"].RefusedDetail }
	for _, step := range []struct {
		change  func()
		refused string
		wakes   int
	}{
		{func() {}, "does not exist", 1}, // for the message that says why
		{func() { m.SetPVC(unboundClaim("data", "late")) }, "StorageClass late does not exist", 0},
		{func() { m.SetStorageClass(late("late")) }, "", 1},
		{func() { m.SetPVC(boundClaim("data", "pv")) }, "PersistentVolume pv, which does not exist", 0},
		{func() { m.SetVolume(csiVolume("pv")) }, "", 1},
		{func() { m.SetVolume(csiVolume("pv")) }, "", 0},
		{func() { m.RemoveVolume(csiVolume("pv")) }, "does not exist", 0},
		{func() { m.SetPVC(unboundClaim("data", "late")) }, "", 1},
		{func() { m.RemoveStorageClass(late("late")) }, "does not exist", 0},
		{func() { m.RemovePVC(unboundClaim("data", "late")) }, "does not exist", 0},
	} {
		step.change()
		if !strings.Contains(refused(), step.refused) || (refused() == "") != (step.refused == "") || len(woken) != step.wakes {
			t.Errorf("refused %q and woken %v, want %q and %d", refused(), woken, step.refused, step.wakes)
		}
		woken = nil
	}
	m.RemovePod(mounting("a", "data"))
	if len(m.parts.volumes.mounts) != 0 || len(m.parts.volumes.pvcsOn) != 0 {
		t.Errorf("something is remembered: %v, %v", m.parts.volumes.mounts, m.parts.volumes.pvcsOn)
	}
}
