// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

func condition(kind string, is metav1.ConditionStatus) status.Condition {
	return status.Condition{Type: kind, Status: is, Reason: kind, LastTransitionTime: moment}
}

func (g *generator) nodes() {
	for range g.IntN(7) {
		name := g.serial("n")
		if g.chance(20) {
			g.foreignNode(name)
			continue
		}
		g.managedNode(name)
	}
}

// foreignNode has no NodeClaim.
func (g *generator) foreignNode(name string) {
	labels := map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	if g.chance(80) {
		labels[corev1.LabelTopologyZone] = pick(g, "z1", "z2", "z4")
	}
	if g.chance(30) {
		labels[labelTeam] = pick(g, "red", "blue", "007", "")
	}
	cores := int64(1 + g.IntN(6))
	n, _ := judge.NewNode(name, labels, nil, quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores << 31, quantity.NamePods: int64(pick(g, 4, 30)), quantity.NameStorage: 20 << 30})
	n.CreationTimestamp = moment
	g.vary(n, nil)
	g.addNode(n)
}

// managedNode belongs to a NodePool; its Node may not be there yet.
func (g *generator) managedNode(name string) {
	pool := pick(g, g.w.NodePools...)
	t := &g.w.Types[g.IntN(len(g.w.Types))]
	o := &t.Offerings[g.IntN(len(t.Offerings))]
	claim := &karpv1.NodeClaim{ObjectMeta: meta("", "claim-"+name)}
	claim.Spec.NodeClassRef, claim.Spec.Taints, claim.Spec.StartupTaints = pool.Spec.Template.Spec.NodeClassRef, pool.Spec.Template.Spec.Taints, pool.Spec.Template.Spec.StartupTaints
	for key, value := range map[string]string{corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: o.Zone, karpv1.CapacityTypeLabelKey: o.CapacityType} {
		claim.Spec.Requirements = append(claim.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	sortRequirements(claim.Spec.Requirements)
	claim.Spec.Resources.Requests = list("cpu", "100m", "memory", "100Mi", "pods", "1")
	labels := judge.LaunchedLabels(t, o, g.poolLabels(pool), schedule.Launch{Pool: pool.Name})
	claim.Labels = maps.Clone(g.poolLabels(pool))
	claim.Labels[karpv1.NodePoolLabelKey] = pool.Name
	phase := g.IntN(10)
	if phase == 0 && o.Unavailable == "" { // not launched
		claim.CreationTimestamp = metav1.Time{} // so that it never counts as stuck
		g.w.NodeClaims = append(g.w.NodeClaims, claim)
		return
	}
	room := t.Capacity.Sub(t.Overhead)
	node, csi := judge.NewNode(name, labels, pool.Spec.Template.Spec.Taints, room)
	claim.Labels = maps.Clone(labels)
	claim.Status.ProviderID = "cloud:///" + name
	claim.Status.Allocatable = node.Status.Allocatable
	capacity, _ := judge.NewNode("", nil, nil, t.Capacity)
	claim.Status.Capacity = capacity.Status.Capacity
	claim.Status.Conditions = append(claim.Status.Conditions, condition(karpv1.ConditionTypeLaunched, metav1.ConditionTrue))
	g.w.NodeClaims = append(g.w.NodeClaims, claim)
	if phase == 1 { // launched, no Node yet
		claim.CreationTimestamp = metav1.Time{}
		return
	}
	node.CreationTimestamp = moment
	node.Labels[corev1.LabelHostname] = name
	node.Spec.ProviderID = claim.Status.ProviderID
	node.Status.Capacity = capacity.Status.Capacity
	switch phase {
	case 2: // not registered
		claim.CreationTimestamp = metav1.Time{}
		node.Spec.Taints = append(node.Spec.Taints, karpv1.UnregisteredNoExecuteTaint)
		node.Spec.Taints = append(node.Spec.Taints, claim.Spec.StartupTaints...)
		node.Labels = map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}
	case 3: // registered, not initialized
		claim.CreationTimestamp = metav1.Time{}
		node.Labels[karpv1.NodeRegisteredLabelKey] = "true"
		node.Spec.Taints = append(node.Spec.Taints, claim.Spec.StartupTaints...)
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		if g.chance(50) {
			node.Status.Allocatable, node.Status.Capacity = nil, nil
		}
	default:
		node.Labels[karpv1.NodeRegisteredLabelKey], node.Labels[karpv1.NodeInitializedLabelKey] = "true", "true"
		claim.Status.Conditions = append(claim.Status.Conditions, condition(karpv1.ConditionTypeRegistered, metav1.ConditionTrue), condition(karpv1.ConditionTypeInitialized, metav1.ConditionTrue))
		if len(csi.Spec.Drivers) > 0 && g.chance(70) {
			if g.chance(20) {
				*csi.Spec.Drivers[0].Allocatable.Count = 1
			}
			g.w.CSINodes = append(g.w.CSINodes, csi)
		}
		g.vary(node, claim)
	}
	g.addNode(node)
}

// poolLabels are the labels that a NodePool gives its NodeClaims.
func (g *generator) poolLabels(p *karpv1.NodePool) map[string]string {
	out := templateLabels(p)
	for _, r := range p.Spec.Template.Spec.Requirements {
		if r.Key == labelTeam {
			out[r.Key] = r.Values[g.IntN(len(r.Values))]
		}
	}
	return out
}

// templateLabels are those of the NodePool's template, with the one that names the node class.
func templateLabels(p *karpv1.NodePool) map[string]string {
	out := maps.Clone(p.Spec.Template.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		out[ref.Group+"/"+strings.ToLower(ref.Kind)] = ref.Name
	}
	return out
}

// vary makes a node that is ready differ from what its NodePool and type say.
func (g *generator) vary(n *corev1.Node, c *karpv1.NodeClaim) {
	if g.chance(12) {
		n.Spec.Taints = append(n.Spec.Taints, g.taint())
	}
	if g.chance(6) {
		n.Spec.Unschedulable = true
		if g.chance(50) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if g.chance(6) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	if g.chance(15) {
		deleted := metav1.NewTime(moment.Add(time.Hour))
		n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		if c != nil {
			c.DeletionTimestamp, c.Finalizers = &deleted, []string{karpv1.TerminationFinalizer}
		}
		if c == nil || g.chance(70) {
			n.DeletionTimestamp, n.Finalizers = &deleted, []string{karpv1.TerminationFinalizer}
		}
	}
}

func (g *generator) addNode(n *corev1.Node) {
	g.used[n.Name] = corev1.ResourceList{}
	g.w.Nodes = append(g.w.Nodes, n)
}

func sortRequirements(in []karpv1.NodeSelectorRequirementWithMinValues) {
	for i := range in {
		for j := i; j > 0 && in[j].Key < in[j-1].Key; j-- {
			in[j], in[j-1] = in[j-1], in[j]
		}
	}
}

func (g *generator) storageClasses() {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	for _, name := range []string{"anywhere", "zonal"} {
		c := &storagev1.StorageClass{ObjectMeta: meta("", name), Provisioner: disk, VolumeBindingMode: &wait}
		if name == "zonal" {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: some(g, 2, "z1", "z2", "z3")}}}}
		}
		g.w.StorageClasses = append(g.w.StorageClasses, c)
	}
}

// daemonSets run on the nodes that they match, or are about to.
func (g *generator) daemonSets() {
	for i := range g.IntN(3) {
		d := &appsv1.DaemonSet{ObjectMeta: meta("kube-system", fmt.Sprintf("daemon%d", i+1))}
		template := &d.Spec.Template
		template.Labels = map[string]string{"daemon": d.Name}
		template.Spec = g.plainSpec()
		template.Spec.Containers[0].Resources.Requests = list("cpu", pick(g, "50m", "300m", "1"), "memory", pick(g, "64Mi", "500Mi"))
		if g.chance(30) {
			template.Spec.NodeSelector = g.nodeSelector()
		}
		if g.chance(20) {
			template.Spec.Affinity = &corev1.Affinity{NodeAffinity: g.requiredNodeAffinity()}
		}
		for g.chance(40) {
			template.Spec.Tolerations = append(template.Spec.Tolerations, g.toleration())
		}
		if g.chance(25) {
			template.Spec.Containers[0].Ports = append(template.Spec.Containers[0].Ports, g.port())
		}
		g.w.DaemonSets = append(g.w.DaemonSets, d)
		for _, n := range g.w.Nodes {
			if g.chance(60) {
				g.startDaemon(d, n)
			}
		}
	}
}

// startDaemon runs the DaemonSet's pod on the node, if the DaemonSet controller would.
func (g *generator) startDaemon(d *appsv1.DaemonSet, n *corev1.Node) {
	p := daemonPod(d, n.Name)
	if !admits(p, n) || !g.fits(p, n) {
		return
	}
	p.Spec.NodeName = n.Name
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}}},
	}}}
	p.Status.Phase = corev1.PodRunning
	g.use(p, n)
	g.w.Pods = append(g.w.Pods, p)
}

// overlays correct prices, and add a resource to some instance types.
func (g *generator) overlays() {
	for i := range max(0, g.IntN(6)-3) {
		o := &karpv1alpha1.NodeOverlay{ObjectMeta: meta("", fmt.Sprintf("overlay%d", i+1))}
		o.Spec.Requirements = []karpv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: some(g, 2, "t1", "t2", "t3")}}
		weight := int32(i + 1)
		o.Spec.Weight = &weight
		switch g.IntN(3) {
		case 0:
			price := pick(g, "0", "0.01", "1.5")
			o.Spec.Price = &price
		case 1:
			adjustment := pick(g, "-50%", "+20%", "-0.01")
			o.Spec.PriceAdjustment = &adjustment
		default:
			o.Spec.Capacity = list("example.com/license", pick(g, "1", "2"))
		}
		g.w.Overlays = append(g.w.Overlays, o)
	}
}
