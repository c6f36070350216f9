// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/test/kubeapi"
)

func nodeFaults() []FaultKind {
	const of = "node"
	var all []FaultKind
	for _, name := range []string{neverRegisters, neverReady, lessCapacity, otherProviderID, labelsMissing, nameTaken} {
		all = append(all, happening(of, name, func(s *script, d *drawing) {
			s.world.kubelets.spoil(flaw{name, 2*time.Minute + 5*d.lasts}, 1+d.n%3)
		}))
	}
	one := func(name string, do func(s *script, d *drawing, n *corev1.Node)) FaultKind {
		return happening(of, name, func(s *script, d *drawing) {
			if n := nth(s.world.objects.nodes(), d.n); n != nil {
				do(s, d, n)
			}
		})
	}
	return append(all,
		one("KubeletStops", func(s *script, d *drawing, n *corev1.Node) { s.world.kubelets.silence(n.Name, 5*d.lasts) }),
		one("KubeletRestarts", func(s *script, _ *drawing, n *corev1.Node) { s.world.kubelets.setUnready(n.Name, 20*time.Second) }),
		one("NotReady", func(s *script, d *drawing, n *corev1.Node) { s.world.kubelets.setUnready(n.Name, 5*d.lasts) }),
		one("NodeDeleted", func(s *script, _ *drawing, n *corev1.Node) {
			s.do("deleting node "+n.Name, s.world.client.Delete(s.world.ctx, n))
		}),
		one("LabelsRewritten", func(s *script, d *drawing, n *corev1.Node) {
			key := []string{karpv1.NodePoolLabelKey, corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable, karpv1.CapacityTypeLabelKey, karpv1.NodeInitializedLabelKey}[d.m%5]
			changeObject(s, n, func(n *corev1.Node) { n.Labels[key] = "rewritten" })
			s.forAWhile(d.lasts, func() { s.setLabel(n.Name, key, n.Labels[key]) })
		}),
		one("TaintReturns", func(s *script, _ *drawing, n *corev1.Node) {
			changeObject(s, n, func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: startupTaint, Effect: corev1.TaintEffectNoExecute})
			})
		}),
		one("UnregisteredTaintReturns", func(s *script, _ *drawing, n *corev1.Node) {
			changeObject(s, n, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, karpv1.UnregisteredNoExecuteTaint) })
			s.forAWhile(time.Minute, func() { s.untaint(n.Name, karpv1.UnregisteredTaintKey) })
		}),
		happening(of, "StartupTaintStays", func(s *script, d *drawing) {
			s.changePool(d.n, func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: startupTaint, Effect: corev1.TaintEffectNoSchedule}}
			})
			stays := &s.world.controllers.startupTaintStays
			stays.Store(true)
			s.forAWhile(5*d.lasts, func() { stays.Store(false) })
		}),
	)
}

// changeObject writes a change of an object as a user does.
func changeObject[T client.Object](s *script, o T, change func(T)) {
	changed := o.DeepCopyObject().(T)
	change(changed)
	s.do("changing "+o.GetName(), s.world.client.Patch(s.world.ctx, changed, client.MergeFrom(o)))
}

// setLabel gives a Node its label back, if it is still there.
func (s *script) setLabel(node, key, value string) {
	for _, n := range s.world.objects.nodes() {
		if n.Name == node {
			changeObject(s, n, func(n *corev1.Node) {
				if n.Labels[key] = value; value == "" {
					delete(n.Labels, key)
				}
			})
		}
	}
}

func (s *script) untaint(node, key string) {
	for _, n := range s.world.objects.nodes() {
		if n.Name == node {
			changeObject(s, n, func(n *corev1.Node) {
				kept := []corev1.Taint{}
				for _, t := range n.Spec.Taints {
					if t.Key != key {
						kept = append(kept, t)
					}
				}
				n.Spec.Taints = kept
			})
		}
	}
}

// create adds an object as a user, and takes it away later.
func (s *script) create(o client.Object, lasts time.Duration) {
	s.do("creating "+o.GetName(), s.world.client.Create(s.world.ctx, o))
	s.forAWhile(lasts, func() { s.do("deleting "+o.GetName(), s.world.client.Delete(s.world.ctx, o)) })
}

// barePod is a pod without an owner.
func barePod(name string, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "bare"}}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(5)),
		Containers:                    []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}},
	}}
}

func workloadFaults() []FaultKind {
	const of = "workload"
	// pods makes some pods without owners that are out of the ordinary.
	pods := func(name string, change func(p *corev1.Pod, d *drawing)) FaultKind {
		return happening(of, name, func(s *script, d *drawing) {
			for i := range 1 + d.n%8 {
				p := barePod(fmt.Sprintf("%s-%d-%d", strings.ToLower(name), d.m, i), "500m")
				change(p, d)
				s.create(p, d.lasts)
			}
		})
	}
	return []FaultKind{
		happening(of, "PodsComeAndGo", func(s *script, d *drawing) {
			for i := range 100 {
				s.create(barePod(fmt.Sprintf("brief-%d-%d", d.m, i), "100m"), time.Duration(1+(d.n+i)%10)*time.Second)
			}
		}),
		pods("PodsWithoutOwner", func(*corev1.Pod, *drawing) {}),
		pods("PodsThatFitNowhere", func(p *corev1.Pod, d *drawing) {
			switch d.m % 3 {
			case 0:
				p.Spec.NodeSelector = map[string]string{"nowhere": "to be found"}
			case 1:
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("9Ti")
			default:
				p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "eastus-9"}
			}
		}),
		pods("OddQuantities", func(p *corev1.Pod, d *drawing) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse([]string{"1000000000Gi", "1", "1m", "0"}[d.m%4]), corev1.ResourceCPU: resource.MustParse([]string{"1n", "9E", "0.3333333"}[d.m%3]),
			}
		}),
		pods("TenThousandTolerations", func(p *corev1.Pod, _ *drawing) {
			for i := range 10000 {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("t", i), Operator: corev1.TolerationOpExists})
			}
		}),
		pods("HugePods", func(p *corev1.Pod, _ *drawing) { p.Spec.Containers[0].Args = []string{strings.Repeat("x", 1<<20)} }),
		pods("SpreadWithoutSelector", func(p *corev1.Pod, _ *drawing) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule}}
		}),
		pods("PodsKeepApart", func(p *corev1.Pod, d *drawing) {
			p.Labels["app"] = fmt.Sprint("apart-", d.m)
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}}}
		}),
		happening(of, "PodsWait", func(s *script, d *drawing) {
			for i := range 1 + d.n%8 {
				p := barePod(fmt.Sprintf("gated-%d-%d", d.m, i), "700m")
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				s.create(p, 2*d.lasts)
				s.forAWhile(d.lasts, func() {
					if now := s.podNamed(p.Name); now != nil {
						changeObject(s, now, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
					}
				})
			}
		}),
		happening(of, "PodsFailAgainAndAgain", func(s *script, d *drawing) {
			job := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("failing-", d.m)}}
			job.Spec.Replicas = new(int32(1 + d.n%5))
			job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": job.Name}}
			job.Spec.Template.Labels = job.Spec.Selector.MatchLabels
			job.Spec.Template.Annotations = map[string]string{annotationFails: "true"}
			job.Spec.Template.Spec = barePod("", "1").Spec
			s.create(job, 2*d.lasts)
		}),
		happening(of, "HundredfoldReplicas", func(s *script, d *drawing) {
			s.scale(d.n, int32(100+d.m%200))
			s.forAWhile(d.lasts, func() { s.scale(d.n, int32(d.m%10)) })
		}),
		happening(of, "WorkloadRestarts", func(s *script, d *drawing) { s.restartWorkload(d.n) }),
		happening(of, "PodsAreResized", func(s *script, d *drawing) {
			for i, p := range s.world.objects.pods() {
				if i%3 == 0 && p.DeletionTimestamp == nil && len(p.Spec.Containers) > 0 {
					changeObject(s, p, func(p *corev1.Pod) {
						p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 50+d.m%900)), corev1.ResourceMemory: resource.MustParse("256Mi")}
					})
				}
			}
		}),
		happening(of, "BudgetsAllowNothing", func(s *script, d *drawing) {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("nothing-", d.m)}}
			b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{}, new(zeroPods)
			s.create(b, 3*d.lasts)
		}),
		happening(of, "BudgetsOverlap", func(s *script, d *drawing) {
			for i := range 2 {
				b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("overlap-", d.m, "-", i)}}
				b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{}, new(halfOfPods)
				s.create(b, 3*d.lasts)
			}
		}),
		happening(of, "DaemonSetAdded", func(s *script, d *drawing) {
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("daemon-", d.m)}}
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": set.Name}}
			set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
			set.Spec.Template.Spec = barePod("", fmt.Sprintf("%dm", 100+d.n%900)).Spec
			set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			s.create(set, 4*d.lasts)
		}),
		happening(of, "QuotaOfNamespace", func(s *script, d *drawing) {
			s.forAWhile(d.lasts, s.world.api.Inject(kubeapi.Fault{Name: kubeapi.Forbidden, Process: "kubernetes", Verbs: []string{"create"}, Resources: []string{"pods"}}))
		}),
		happening(of, "NamespaceEmptied", func(s *script, d *drawing) {
			for _, x := range s.world.objects.replicaSets() {
				s.do("deleting "+x.Name, s.world.client.Delete(s.world.ctx, x))
			}
			s.forAWhile(d.lasts, func() {})
			s.waitUntil(time.Now().Add(d.lasts % time.Minute))
			for _, x := range s.workloads {
				s.do("creating "+x.Name, client.IgnoreAlreadyExists(s.world.client.Create(s.world.ctx, x.DeepCopy())))
			}
		}),
	}
}

func (s *script) podNamed(name string) *corev1.Pod {
	for _, p := range s.world.objects.pods() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func operatorFaults() []FaultKind {
	const of = "operator"
	pool := func(name string, change func(p *karpv1.NodePool, d *drawing)) FaultKind {
		return happening(of, name, func(s *script, d *drawing) {
			s.changePool(d.n, func(p *karpv1.NodePool) { change(p, d) })
		})
	}
	class := func(name string, change func(c *v1beta1.AKSNodeClass, d *drawing), back func(c *v1beta1.AKSNodeClass)) FaultKind {
		return happening(of, name, func(s *script, d *drawing) {
			s.changeClass(func(c *v1beta1.AKSNodeClass) { change(c, d) })
			if back != nil {
				s.forAWhile(2*d.lasts, func() { s.changeClass(back) })
			}
		})
	}
	return []FaultKind{
		pool("TemplateChanges", func(p *karpv1.NodePool, d *drawing) { p.Spec.Template.Labels["generation"] = fmt.Sprint(d.m) }),
		pool("BudgetIsZero", func(p *karpv1.NodePool, _ *drawing) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} }),
		pool("LimitsBelowUsage", func(p *karpv1.NodePool, _ *drawing) {
			p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("1")}
		}),
		happening(of, "PoolDeleted", func(s *script, d *drawing) { s.remakePool(d.n) }),
		happening(of, "FinalizerOfNodeClaimRemoved", func(s *script, d *drawing) {
			if c := nth(s.world.objects.claims(), d.n); c != nil {
				s.do("deleting "+c.Name, s.world.client.Delete(s.world.ctx, c))
				changeObject(s, c, func(c *karpv1.NodeClaim) { c.Finalizers = nil })
			}
		}),
		happening(of, "FinalizerOfNodeRemoved", func(s *script, d *drawing) {
			if n := nth(s.world.objects.nodes(), d.n); n != nil {
				s.do("deleting "+n.Name, s.world.client.Delete(s.world.ctx, n))
				changeObject(s, n, func(n *corev1.Node) { n.Finalizers = nil })
			}
		}),
		happening(of, "ScaledToZero", func(s *script, d *drawing) { s.crash(time.Minute + 3*d.lasts) }),
		happening(of, "Uninstalled", func(s *script, d *drawing) {
			for _, p := range s.karve {
				p.kill()
				<-p.done
			}
			s.karve = nil
			for i := range s.pools {
				s.do("deleting", client.IgnoreNotFound(s.world.client.Delete(s.world.ctx, s.pools[i].DeepCopy())))
			}
			time.Sleep(d.lasts)
			s.startKarve()
			time.Sleep(30 * time.Second) // the pools go when karve takes its finalizers off, if any
			for _, p := range s.pools {
				s.do("creating "+p.Name, client.IgnoreAlreadyExists(s.world.client.Create(s.world.ctx, p.DeepCopy())))
			}
		}),
		happening(of, "AllNodesDeleted", func(s *script, _ *drawing) {
			for _, n := range s.world.objects.nodes() {
				s.do("deleting "+n.Name, s.world.client.Delete(s.world.ctx, n))
			}
		}),
		happening(of, "NodeClaimDeleted", func(s *script, d *drawing) {
			if c := nth(s.world.objects.claims(), d.n); c != nil {
				s.do("deleting "+c.Name, s.world.client.Delete(s.world.ctx, c))
			}
		}),
		happening(of, "AnotherAutoscaler", func(s *script, d *drawing) {
			n := nth(s.world.objects.nodes(), d.n)
			if n == nil {
				return
			}
			changeObject(s, n, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			for _, p := range s.world.objects.pods() {
				if p.Spec.NodeName == n.Name {
					s.do("deleting "+p.Name, s.world.client.Delete(s.world.ctx, p))
				}
			}
			if d.m%2 == 0 {
				s.do("deleting "+n.Name, s.world.client.Delete(s.world.ctx, n))
				return
			}
			s.forAWhile(2*d.lasts, func() { s.uncordon(n.Name) })
		}),
		class("WrongSubnet", func(c *v1beta1.AKSNodeClass, _ *drawing) {
			c.Spec.VNETSubnetID = new("/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/elsewhere/providers/Microsoft.Network/virtualNetworks/v/subnets/nowhere")
		}, func(c *v1beta1.AKSNodeClass) { c.Spec.VNETSubnetID = nil }),
		class("ImagesRolled", func(c *v1beta1.AKSNodeClass, d *drawing) {
			c.Spec.ImageFamily = new([]v1beta1.ImageFamily{v1beta1.ImageFamilyAzureLinux, v1beta1.ImageFamilyUbuntu2204}[d.m%2])
		}, nil),
		class("TagsChange", func(c *v1beta1.AKSNodeClass, d *drawing) { c.Spec.Tags = map[string]string{"owner": fmt.Sprint(d.m)} }, nil),
	}
}

func (s *script) changeClass(change func(*v1beta1.AKSNodeClass)) {
	for _, c := range all[*v1beta1.AKSNodeClass](s.world.objects, "AKSNodeClass") {
		changeObject(s, c, change)
	}
}

func (s *script) uncordon(node string) {
	for _, n := range s.world.objects.nodes() {
		if n.Name == node {
			changeObject(s, n, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		}
	}
}
