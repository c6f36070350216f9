// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
)

// workloads draws kinds of pods, each with a few replicas, some of which run already.
func (g *generator) workloads() {
	for i := range 1 + min(g.IntN(12), g.IntN(12)) {
		name := fmt.Sprintf("w%d", i+1)
		kind := pick(g, "ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "")
		template := g.template(name)
		g.extras.preferences(template)
		claim := g.volumeTemplate()
		priority := int32(pick(g, 0, 0, 0, 10, -5))
		for r := range 1 + min(g.IntN(4), g.IntN(5)) + g.extras.replicas() {
			p := &corev1.Pod{ObjectMeta: meta(template.Namespace, fmt.Sprintf("%s-%d", name, r)), Spec: *template.Spec.DeepCopy()}
			p.Labels = template.Labels
			p.Spec.Priority = &priority
			if kind != "" {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: &controller}}
			}
			claim(p)
			g.stand(p)
			g.extras.lose(p)
			g.w.Pods = append(g.w.Pods, p)
		}
	}
}

// stand binds the pod, lets it wait for a node, or holds it back.
func (g *generator) stand(p *corev1.Pod) {
	if g.chance(35) && g.bind(p) {
		return
	}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	switch {
	case g.chance(3):
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	case g.chance(2):
		p.Status.NominatedNodeName = "elsewhere"
	}
}

// bind puts the pod on a node that has room and admits it, as far as labels and taints say.
func (g *generator) bind(p *corev1.Pod) bool {
	for _, i := range g.Perm(len(g.w.Nodes)) {
		n := g.w.Nodes[i]
		if !admits(p, n) || !g.fits(p, n) || !g.mountable(p, n) {
			continue
		}
		g.provision(p, n)
		p.Spec.NodeName = n.Name
		p.Status.Phase = corev1.PodRunning
		p.Status.StartTime = &moment
		g.use(p, n)
		switch {
		case g.chance(10):
			deleted := metav1.NewTime(moment.Add(time.Hour))
			seconds := int64(30)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &deleted, &seconds
		case g.chance(4):
			p.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
		case g.chance(8):
			p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		}
		return true
	}
	return false
}

func (g *generator) plainSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "pause"}}}
}

// template is a pod as all replicas of a workload have it, without volumes.
func (g *generator) template(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, "default", "default", "team-a", "team-b")}, Spec: g.plainSpec()}
	p.Labels = map[string]string{"app": pick(g, "a", "b", "c"), "pod-template-hash": name}
	if g.chance(50) {
		p.Labels["tier"] = pick(g, "x", "y", "")
	}
	g.resources(&p.Spec)
	if g.chance(25) {
		p.Spec.NodeSelector = g.nodeSelector()
	}
	affinity := &corev1.Affinity{}
	if g.chance(25) {
		affinity.NodeAffinity = g.requiredNodeAffinity()
	}
	if g.chance(10) {
		if affinity.NodeAffinity == nil {
			affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: int32(1 + g.IntN(100)), Preference: g.nodeTerm()}}
	}
	if g.chance(20) {
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(p, 75)}
	}
	if g.chance(20) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(p, 60)}
	}
	if g.chance(8) {
		if affinity.PodAntiAffinity == nil {
			affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: g.podTerm(p, 80)}}
	}
	if affinity.NodeAffinity != nil || affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil {
		p.Spec.Affinity = affinity
	}
	spread := map[string]bool{}
	for chance := 28; g.chance(chance); chance = 20 {
		s := g.spread(p)
		if key := s.TopologyKey + string(s.WhenUnsatisfiable); !spread[key] { // the API server accepts each pair once
			spread[key] = true
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, s)
		}
	}
	for g.chance(25) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, g.toleration())
	}
	for g.chance(12) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, g.port())
	}
	p.Spec.Containers[0].Ports = distinct(p.Spec.Containers[0].Ports)
	return p
}

// distinct leaves out ports that are there already: the API server accepts each once.
func distinct(ports []corev1.ContainerPort) []corev1.ContainerPort {
	seen := map[corev1.ContainerPort]bool{}
	var out []corev1.ContainerPort
	for _, p := range ports {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

func (g *generator) requests() corev1.ResourceList {
	out := list("cpu", pick(g, "100m", "250m", "500m", "900m", "1", "1500m", "2", "3900m", "7"), "memory", pick(g, "64Mi", "256Mi", "1Gi", "3Gi", "1500M", "6Gi"))
	if g.chance(10) {
		out[corev1.ResourceEphemeralStorage] = resource.MustParse(pick(g, "1Gi", "15Gi", "30Gi"))
	}
	if g.chance(6) {
		out["nvidia.com/gpu"] = resource.MustParse("1")
	}
	if g.chance(3) {
		out["example.com/license"] = resource.MustParse("1")
	}
	return out
}

// resources gives the pod containers, sometimes init containers and sidecars, and overhead.
func (g *generator) resources(spec *corev1.PodSpec) {
	spec.Containers[0].Resources.Requests = g.requests()
	for _, name := range []corev1.ResourceName{"nvidia.com/gpu", "example.com/license"} {
		if n, ok := spec.Containers[0].Resources.Requests[name]; ok {
			spec.Containers[0].Resources.Limits = corev1.ResourceList{name: n} // the API server wants both alike
		}
	}
	if g.chance(5) {
		spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
	for g.chance(12) {
		c := corev1.Container{Name: fmt.Sprintf("init%d", len(spec.InitContainers)), Image: "pause"}
		c.Resources.Requests = list("cpu", pick(g, "100m", "1", "3"), "memory", pick(g, "100Mi", "2Gi"))
		if g.chance(50) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			if g.chance(20) {
				c.Ports = append(c.Ports, g.port())
			}
		}
		spec.InitContainers = append(spec.InitContainers, c)
	}
	if g.chance(4) {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "second", Image: "pause", Resources: corev1.ResourceRequirements{Limits: list("cpu", "200m"), Requests: list("cpu", "200m")}})
	}
	if g.chance(3) {
		spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "4", "memory", "7Gi")}
	}
	if g.chance(6) {
		name := "sandbox"
		spec.RuntimeClassName = &name
		spec.Overhead = list("cpu", "250m", "memory", "120Mi")
	}
}

func (g *generator) nodeSelector() map[string]string {
	switch g.IntN(7) {
	case 0:
		return map[string]string{corev1.LabelTopologyZone: pick(g, "z1", "z2", "z3")}
	case 1:
		return map[string]string{corev1.LabelArchStable: pick(g, "amd64", "arm64")}
	case 2:
		return map[string]string{labelTeam: pick(g, "red", "blue", "007", "7")}
	case 3:
		return map[string]string{karpv1.CapacityTypeLabelKey: pick(g, offering.OnDemand, offering.Spot)}
	case 4:
		return map[string]string{"example.com/pool": pick(g, "x", "y")}
	case 5:
		return map[string]string{karpv1.NodePoolLabelKey: pick(g, "pool1", "pool2")}
	default:
		return map[string]string{corev1.LabelOSStable: "linux", labelFamily: pick(g, "a", "b")}
	}
}

func (g *generator) requiredNodeAffinity() *corev1.NodeAffinity {
	s := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{g.nodeTerm()}}
	for g.chance(30) {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, g.nodeTerm())
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}
}

func (g *generator) nodeTerm() corev1.NodeSelectorTerm {
	t := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.nodeRequirement()}}
	for g.chance(30) {
		t.MatchExpressions = append(t.MatchExpressions, g.nodeRequirement())
	}
	return t
}

func (g *generator) nodeRequirement() corev1.NodeSelectorRequirement {
	key := pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelArchStable, labelFamily, labelTeam, labelCores, labelCores, corev1.LabelInstanceTypeStable, karpv1.CapacityTypeLabelKey)
	values := map[string][]string{
		corev1.LabelTopologyZone: {"z1", "z2", "z3", "z4"}, corev1.LabelArchStable: {"amd64", "arm64"}, labelFamily: {"a", "b", ""},
		labelTeam: {"red", "blue", "007", ""}, labelCores: {"2", "4", "007", "7", ""}, corev1.LabelInstanceTypeStable: {"t1", "t2", "t3", "t4"},
		karpv1.CapacityTypeLabelKey: {offering.Spot, offering.OnDemand},
	}[key]
	r := corev1.NodeSelectorRequirement{Key: key}
	switch n := g.IntN(10); {
	case key == labelCores && n < 6:
		r.Operator = pick(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
		r.Values = []string{pick(g, "0", "1", "3", "4", "007", "00", "9223372036854775807", "99999999999999999999", "many", "")}
	case n < 5:
		r.Operator, r.Values = corev1.NodeSelectorOpIn, some(g, 2, values...)
	case n < 8:
		r.Operator, r.Values = corev1.NodeSelectorOpNotIn, some(g, 2, values...)
	case n == 8:
		r.Operator = corev1.NodeSelectorOpExists
	default:
		r.Operator = corev1.NodeSelectorOpDoesNotExist
	}
	if odd := pick(g, "-5", "Zürich", "a b"); len(r.Values) > 0 && g.chance(2) {
		r.Values[0] = odd // in pods that older API servers accepted
	}
	return r
}

func (g *generator) toleration() corev1.Toleration {
	t := corev1.Toleration{Key: pick(g, "dedicated", "example.com/gpu", "size"), Operator: corev1.TolerationOpExists}
	if g.chance(40) {
		t.Operator, t.Value = corev1.TolerationOpEqual, pick(g, "", "x", "5", "007")
	}
	if g.chance(40) {
		t.Effect = pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
	}
	if g.chance(10) {
		t = corev1.Toleration{Operator: corev1.TolerationOpExists}
	}
	return t
}

func (g *generator) port() corev1.ContainerPort {
	port := int32(8080 + g.IntN(2))
	return corev1.ContainerPort{ContainerPort: port, HostPort: port, Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: pick(g, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1")}
}

// labelSelector selects the pod itself in so many percent of all cases.
func (g *generator) labelSelector(p *corev1.Pod, itself int) *metav1.LabelSelector {
	app := p.Labels["app"]
	if !g.chance(itself) {
		app = pick(g, "a", "b", "c")
	}
	switch g.IntN(10) {
	case 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{app}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: some(g, 2, "a", "b", "c")}}}
	case 3:
		if g.chance(30) {
			return &metav1.LabelSelector{} // every pod
		}
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app, "tier": "x"}}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
}

func (g *generator) topologyKey() string {
	return pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelArchStable, karpv1.CapacityTypeLabelKey, labelTeam)
}

func (g *generator) podTerms(p *corev1.Pod, itself int) []corev1.PodAffinityTerm {
	out := []corev1.PodAffinityTerm{g.podTerm(p, itself)}
	for g.chance(25) {
		out = append(out, g.podTerm(p, itself))
	}
	return out
}

func (g *generator) podTerm(p *corev1.Pod, itself int) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: g.topologyKey(), LabelSelector: g.labelSelector(p, itself)}
	switch g.IntN(8) {
	case 0:
		t.Namespaces = some(g, 2, "default", "team-a", "team-b")
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": pick(g, "prod", "test")}}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 3:
		t.Namespaces = []string{"team-a"}
		t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	if g.chance(10) {
		t.MatchLabelKeys = []string{"pod-template-hash"}
	} else if g.chance(5) {
		t.MismatchLabelKeys = []string{"pod-template-hash"}
	}
	return merged(t, p)
}

// merged adds what the API server makes of the match keys; the scheduler reads nothing else.
func merged(t corev1.PodAffinityTerm, p *corev1.Pod) corev1.PodAffinityTerm {
	for _, key := range t.MatchLabelKeys {
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{p.Labels[key]}})
	}
	for _, key := range t.MismatchLabelKeys {
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{p.Labels[key]}})
	}
	return t
}

func (g *generator) spread(p *corev1.Pod) corev1.TopologySpreadConstraint {
	s := corev1.TopologySpreadConstraint{
		TopologyKey: g.topologyKey(), MaxSkew: int32(pick(g, 1, 1, 1, 2, 3)), LabelSelector: g.labelSelector(p, 85),
		WhenUnsatisfiable: pick(g, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
	}
	if s.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(20) {
		domains := int32(1 + g.IntN(3))
		s.MinDomains = &domains
	}
	if g.chance(30) {
		policy := pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		s.NodeAffinityPolicy = &policy
	}
	if g.chance(30) {
		policy := pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		s.NodeTaintsPolicy = &policy
	}
	if g.chance(15) {
		s.MatchLabelKeys = []string{"pod-template-hash"}
	}
	return s
}

// volumeTemplate draws the volumes of a workload: what it returns gives a pod its own or the shared one.
func (g *generator) volumeTemplate() func(*corev1.Pod) {
	if !g.chance(22) {
		return func(*corev1.Pod) {}
	}
	name := g.serial("data")
	if g.chance(15) {
		class := pick(g, "anywhere", "zonal")
		return func(p *corev1.Pod) {
			template := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class}}
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}}})
			c := &corev1.PersistentVolumeClaim{ObjectMeta: meta(p.Namespace, p.Name+"-scratch"), Spec: template.Spec}
			c.ResourceVersion, c.Status.Phase = "1", corev1.ClaimPending
			controller := true
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &controller}}
			g.w.VolumeClaims = append(g.w.VolumeClaims, c)
		}
	}
	each, kind := g.chance(60), g.IntN(6)
	mode := corev1.ReadWriteOnce
	switch {
	case !each && g.chance(70):
		mode = corev1.ReadWriteMany
	case g.chance(25):
		mode = corev1.ReadWriteOncePod
	}
	zones := some(g, 2, "z1", "z2", "z3")
	return func(p *corev1.Pod) {
		claim := name
		if each {
			claim += "-" + p.Name
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		if g.w.volumeClaim(p.Namespace, claim) == nil {
			g.volumeClaim(p.Namespace, claim, mode, kind, zones)
		}
	}
}

// mountable reports whether the volumes of the pod are in the node's zone and no other pod has them
// for itself.
func (g *generator) mountable(p *corev1.Pod, n *corev1.Node) bool {
	zone := n.Labels[corev1.LabelTopologyZone]
	for _, v := range p.Spec.Volumes {
		c := g.w.volumeClaim(p.Namespace, claimName(p, v))
		if c.Spec.AccessModes[0] == corev1.ReadWriteOncePod && slices.ContainsFunc(g.w.Pods, func(o *corev1.Pod) bool { return o.Spec.NodeName != "" && mounts(o, c) }) {
			return false
		}
		for _, pv := range g.w.Volumes {
			if pv.Name != c.Spec.VolumeName {
				continue
			}
			zones := strings.Split(pv.Labels[corev1.LabelTopologyZone], "__")
			if pv.Spec.NodeAffinity != nil {
				zones = pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
			}
			if zones[0] != "" && !slices.Contains(zones, zone) {
				return false
			}
		}
		if c.Spec.VolumeName == "" && zone == "" {
			return false
		}
	}
	return true
}

func mounts(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	return p.Namespace == c.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return claimName(p, v) == c.Name
	})
}

// claimName is the name of the claim behind a pod's volume; empty when there is none.
func claimName(p *corev1.Pod, v corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// provision binds the claims of a pod that got a node.
func (g *generator) provision(p *corev1.Pod, n *corev1.Node) {
	for _, v := range p.Spec.Volumes {
		if c := g.w.volumeClaim(p.Namespace, claimName(p, v)); c.Spec.VolumeName == "" {
			g.bindClaim(c, 3, []string{n.Labels[corev1.LabelTopologyZone]})
		}
	}
}

// volumeClaim adds a claim that waits for its first pod, or one that is bound to a volume.
func (g *generator) volumeClaim(namespace, name string, mode corev1.PersistentVolumeAccessMode, kind int, zones []string) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: meta(namespace, name)}
	c.ResourceVersion = "1"
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	c.Spec.Resources.Requests = list("storage", "1Gi")
	g.w.VolumeClaims = append(g.w.VolumeClaims, c)
	if kind < 2 {
		class := []string{"anywhere", "zonal"}[kind]
		c.Spec.StorageClassName = &class
		c.Status.Phase = corev1.ClaimPending
		return
	}
	g.bindClaim(c, kind, zones)
}

// bindClaim binds the claim to a new volume, whose kind says how it is tied to the zones.
func (g *generator) bindClaim(c *corev1.PersistentVolumeClaim, kind int, zones []string) {
	name := c.Name
	v := &corev1.PersistentVolume{ObjectMeta: meta("", "volume-"+name)}
	v.ResourceVersion = "1"
	v.Spec.AccessModes = c.Spec.AccessModes
	v.Spec.Capacity = list("storage", "1Gi")
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: name, UID: c.UID}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: disk, VolumeHandle: name}
	switch kind {
	case 2:
		v.Labels = map[string]string{corev1.LabelTopologyZone: zones[0]}
		if len(zones) > 1 {
			v.Labels[corev1.LabelTopologyZone] += "__" + zones[1]
		}
	case 3:
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}},
		}}}}
	case 4:
		v.Spec.CSI = nil
		v.Spec.NFS = &corev1.NFSVolumeSource{Server: "files", Path: "/" + name}
	}
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	c.Spec.VolumeName = v.Name
	c.Status.Phase = corev1.ClaimBound
	g.w.Volumes = append(g.w.Volumes, v)
}
