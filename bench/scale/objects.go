// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	mainPool  = "main"
	probePool = "probe"
	// probeLabel is asked for by probes, each with a value of its own: no node has it, so each
	// probe needs a NodeClaim, which then names it.
	probeLabel = "bench.karve.dev/probe"
	// kindLabel says which pods are there from the start, which are pending and which are probes.
	kindLabel = "bench.karve.dev/kind"
	// nodeCPU is what the pods of one node ask for, in thousandths: no other pod fits there.
	nodeCPU = 15_600
)

// Size is how large a cluster is.
type Size struct {
	// Nodes have Pods in all; Pending more wait when the controllers are restarted.
	Nodes, Pods, Pending int
}

func (s Size) perNode() int { return max(1, s.Pods/s.Nodes) }

// origin is what a node and its NodeClaim show of the controller that launched them.
type origin struct {
	class        karpv1.NodeClassReference
	instanceType string
	zone         string
	// requirements restrict what the NodePools launch.
	requirements []karpv1.NodeSelectorRequirementWithMinValues
	// providerID is that of a node.
	providerID func(node string) string
}

func (o origin) pool(name string, more ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &o.class
	p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Template.Spec.Requirements = append([]karpv1.NodeSelectorRequirementWithMinValues{
		in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand), in(corev1.LabelOSStable, "linux"), in(corev1.LabelArchStable, "amd64"),
	}, append(o.requirements, more...)...)
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpv1.MustParseNillableDuration("0s"),
		// Nodes are looked at, and stay: all figures are for as many nodes.
		Budgets: []karpv1.Budget{{Nodes: "0"}},
	}
	return p
}

func in(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func nodeName(i int) string  { return fmt.Sprintf("aks-bench-%05d", i) }
func claimName(i int) string { return fmt.Sprintf("bench-%05d", i) }

func (o origin) labels() map[string]string {
	return map[string]string{
		karpv1.NodePoolLabelKey: mainPool, karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand,
		corev1.LabelInstanceTypeStable: o.instanceType, corev1.LabelTopologyZone: o.zone,
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
}

func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("63Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("119Gi"),
	}
}

func allocatable() corev1.ResourceList {
	list := capacity()
	list[corev1.ResourceCPU] = resource.MustParse("15740m")
	list[corev1.ResourceMemory] = resource.MustParse("59Gi")
	return list
}

// claim is launched and initialized once claimStatus is written, too.
func (o origin) claim(i int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName(i), Labels: o.labels(), Finalizers: []string{karpv1.TerminationFinalizer}}}
	c.Spec.NodeClassRef = &o.class
	c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(karpv1.NodePoolLabelKey, mainPool), in(corev1.LabelInstanceTypeStable, o.instanceType), in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand),
	}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15"), corev1.ResourceMemory: resource.MustParse("30Gi")}
	return c
}

func (o origin) claimStatus(i int) karpv1.NodeClaimStatus {
	s := karpv1.NodeClaimStatus{ProviderID: o.providerID(nodeName(i)), NodeName: nodeName(i), Capacity: capacity(), Allocatable: allocatable()}
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable, status.ConditionReady} {
		s.Conditions = append(s.Conditions, status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: 1, LastTransitionTime: metav1.Now()})
	}
	return s
}

func (o origin) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: o.labels(), Finalizers: []string{karpv1.TerminationFinalizer}}}
	n.Labels[corev1.LabelHostname] = n.Name
	n.Labels[karpv1.NodeRegisteredLabelKey], n.Labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	n.Spec.ProviderID = o.providerID(n.Name)
	n.Status = corev1.NodeStatus{Capacity: capacity(), Allocatable: allocatable(), Images: images()}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Microsoft Azure Linux 3.0", Architecture: "amd64", OperatingSystem: "linux"}
	for kind, is := range map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: "True", corev1.NodeMemoryPressure: "False", corev1.NodeDiskPressure: "False", corev1.NodePIDPressure: "False"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: is, Reason: "Kubelet", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()})
	}
	return n
}

// images are as many as a kubelet reports.
func images() (all []corev1.ContainerImage) {
	for i := range 50 {
		name := fmt.Sprintf("registry.example/team-%02d/service", i)
		all = append(all, corev1.ContainerImage{SizeBytes: 100 << 20, Names: []string{fmt.Sprintf("%s@sha256:%064d", name, i), name + ":v1.2.3"}})
	}
	return all
}

// workload is a pod as a ReplicaSet would create it.
func workload(name, app, kind string, milliCPU int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: name, GenerateName: app + "-",
		Labels:          map[string]string{"app": app, "pod-template-hash": "5d8c9f7b6d", kindLabel: kind},
		Annotations:     map[string]string{"checksum/config": fmt.Sprintf("%064x", len(app)), "prometheus.io/scrape": "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: ptr.To(true)}},
	}}
	main := corev1.Container{Name: "main", Image: "registry.example/team/" + app + ":v1.2.3"}
	for i := range 10 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: "value of a setting of " + app})
	}
	main.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(milliCPU), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(milliCPU)<<20, resource.BinarySI)}
	main.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/ready", "--verbose"}}}, PeriodSeconds: 10}
	p.Spec = corev1.PodSpec{SchedulerName: "bench", TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{main}}
	return p
}

// running is the i-th pod that is bound from the start.
func (s Size) running(i int) *corev1.Pod {
	p := workload(fmt.Sprintf("run-%06d", i), fmt.Sprint("app-", i%200), "running", nodeCPU/s.perNode())
	p.Spec.NodeName = nodeName(i % s.Nodes)
	return p
}

// pending is the i-th pod that waits at the restart, for a node of the NodePool main. A tenth of them
// spread over zones.
func pending(i int) *corev1.Pod {
	app := i % 100
	p := workload(fmt.Sprintf("wait-%06d", i), fmt.Sprint("waiting-", app), "pending", 250*(1+app%8))
	p.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: mainPool}
	if app%10 == 0 {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		}}
	}
	return p
}

// probe is a pod that no node and no other NodeClaim has room for.
func probe(id string) *corev1.Pod {
	p := workload("probe-"+id, "probe", "probe", 1000)
	p.Spec.NodeSelector = map[string]string{probeLabel: id}
	return p
}

// passing is a pod of the churn.
func passing(i, nodes int) *corev1.Pod {
	p := workload(fmt.Sprintf("pass-%07d", i), fmt.Sprint("job-", i%50), "passing", 10)
	p.Spec.NodeName = nodeName(i % nodes)
	return p
}

// runningStatus is what a kubelet reports of a pod.
func runningStatus(p *corev1.Pod) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	s := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, HostIP: "10.0.0.1", PodIP: "10.244.0.1", PodIPs: []corev1.PodIP{{IP: "10.244.0.1"}}, QOSClass: corev1.PodQOSBurstable}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: ptr.To(true), Image: c.Image, ImageID: fmt.Sprintf("registry.example/team@sha256:%064x", len(c.Image)),
			ContainerID: fmt.Sprintf("containerd://%064x", len(p.Name)), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return s
}

// unschedulable is what kube-scheduler writes.
func unschedulable(*corev1.Pod) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1000 nodes are available: 1000 Insufficient cpu.", LastTransitionTime: metav1.NewTime(time.Now()),
	}}}
}
