// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/manager"
)

// script is what happens in a world: what is there at the beginning, and the steps.
type script struct {
	world     *world
	pools     []*karpv1.NodePool
	workloads []*appsv1.ReplicaSet
	budgets   []*policyv1.PodDisruptionBudget
	steps     []step
	begins    time.Time

	karve    []*process
	karves   int              // so far
	features manager.Features // of the next
	ends     []func()
}

// step is something that happens at a time. What it does to whom is drawn beforehand, by numbers:
// a step that is left out changes no other.
type step struct {
	at   time.Duration
	what string
	do   func(*script)
}

// draw makes a script from a seed.
func draw(o Options) *script {
	s, r := &script{features: usual}, rand.New(rand.NewPCG(o.Seed, 610))
	for i := range 1 + r.IntN(3) {
		s.pools = append(s.pools, drawPool(r, i))
	}
	for i := range 2 + r.IntN(6) {
		w := drawWorkload(r, i)
		s.workloads = append(s.workloads, w)
		if r.IntN(2) == 0 {
			s.budgets = append(s.budgets, drawBudget(r, w))
		}
	}
	actions, faults := o.Actions, o.Faults
	if actions == 0 {
		actions = 5 + r.IntN(20)
	}
	if faults == 0 {
		faults = r.IntN(6)
	}
	at := func() time.Duration { return time.Duration(r.Int64N(int64(o.For))) }
	for range actions {
		x := drawAction(r)
		x.at = at()
		s.steps = append(s.steps, x)
	}
	for range faults {
		x := drawFault(r, o.Seed)
		x.at = at()
		s.steps = append(s.steps, x)
	}
	for _, k := range o.Kinds {
		x := k.step(r, o.Seed)
		x.at = at()
		s.steps = append(s.steps, x)
	}
	s.begins = pick(r, moments...)
	slices.SortStableFunc(s.steps, func(a, b step) int { return int(a.at - b.at) })
	return s
}

// moments are when worlds begin: at some time, or shortly before a change to summer time, a leap day,
// a turn of a year that had a leap second, and the end of the seconds that fit into 32 bits.
var moments = []time.Time{
	{}, {}, {},
	time.Date(2027, 3, 28, 0, 40, 0, 0, time.UTC), time.Date(2028, 2, 28, 23, 40, 0, 0, time.UTC),
	time.Date(2016, 12, 31, 23, 40, 0, 0, time.UTC), time.Date(2038, 1, 19, 2, 50, 0, 0, time.UTC),
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawPool(r *rand.Rand, i int) *karpv1.NodePool {
	p := &karpv1.NodePool{}
	p.Name = fmt.Sprint("pool-", i)
	p.Spec.Weight = new(int32(1 + r.IntN(3)))
	p.Spec.Template.Labels = map[string]string{"generation": "0"}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: pick(r, []string{"on-demand"}, []string{"spot"}, []string{"spot", "on-demand"}),
	}}
	if r.IntN(3) == 0 {
		p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration(pick(r, "20m", "40m"))
		p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: pick(r, time.Minute, 10*time.Minute)}
	}
	p.Spec.Disruption.ConsolidationPolicy = pick(r, karpv1.ConsolidationPolicyWhenEmpty, karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized)
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(pick(r, "0s", "30s", "2m", "5m"))
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: pick(r, "10%", "1", "2", "50%", "100%")}}
	if r.IntN(3) == 0 {
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(8 + r.IntN(60)))}
	}
	if r.IntN(4) == 0 {
		if p.Spec.Limits == nil {
			p.Spec.Limits = karpv1.Limits{}
		}
		p.Spec.Limits["nodes"] = resource.MustParse(fmt.Sprint(1 + r.IntN(6)))
	}
	return p
}

func drawWorkload(r *rand.Rand, i int) *appsv1.ReplicaSet {
	name := fmt.Sprint("app-", i)
	s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Replicas = new(int32(r.IntN(16)))
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	s.Spec.Template.Labels = map[string]string{"app": name}
	spec := &s.Spec.Template.Spec
	spec.Containers = []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 100+r.IntN(1900))), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 128+r.IntN(4000))),
	}}}}
	spec.TerminationGracePeriodSeconds = new(pick(r, int64(0), 5, 30, 30, 120))
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	switch r.IntN(6) {
	case 0:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1 + int32(r.IntN(2)), TopologyKey: pick(r, corev1.LabelTopologyZone, corev1.LabelHostname), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	case 1:
		*s.Spec.Replicas = min(*s.Spec.Replicas, 4)
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: own}}}}
	case 2:
		spec.NodeSelector = map[string]string{karpv1.CapacityTypeLabelKey: pick(r, "spot", "on-demand")}
	}
	if r.IntN(5) == 0 {
		s.Spec.Template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	return s
}

var (
	zeroPods   = intstr.FromInt32(0)
	halfOfPods = intstr.FromString("50%")
)

func drawBudget(r *rand.Rand, w *appsv1.ReplicaSet) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.Name}}
	b.Spec.Selector = w.Spec.Selector
	if r.IntN(2) == 0 {
		b.Spec.MaxUnavailable = new(pick(r, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("30%")))
	} else {
		b.Spec.MinAvailable = new(pick(r, intstr.FromInt32(1), intstr.FromString("50%"), intstr.FromString("100%")))
	}
	return b
}

// begin has users wish for what is there from the start.
func (s *script) begin() {
	s.startKarve()
	class := &v1beta1.AKSNodeClass{}
	class.Name = "default"
	s.do("creating the class", s.world.client.Create(s.world.ctx, class))
	for _, p := range s.pools {
		s.do("creating "+p.Name, s.world.client.Create(s.world.ctx, p.DeepCopy()))
	}
	for _, w := range s.workloads {
		s.do("creating "+w.Name, s.world.client.Create(s.world.ctx, w.DeepCopy()))
	}
	for _, b := range s.budgets {
		s.do("creating budget "+b.Name, s.world.client.Create(s.world.ctx, b.DeepCopy()))
	}
}

// do records an error of a user, unless it is one of the API server's bad moments.
func (s *script) do(what string, err error) {
	if client.IgnoreNotFound(err) != nil && !passes(err) {
		s.world.say("%s: %v", what, err)
	}
}

func (s *script) startKarve() {
	s.karves++
	s.karve = append(s.karve, s.world.startKarve(fmt.Sprint("karve-", s.karves), s.features))
}

// heal ends all faults, and has one karve run.
func (s *script) heal() {
	for _, end := range s.ends {
		end()
	}
	s.world.azure.ClearFaults()
	s.world.kubelets.heal()
	s.world.auditor.disturbed()
	for _, p := range s.karve {
		p.api.Resume()
		p.hindrance.killAtWrite(0, false)
	}
	s.world.expectKarve = true
	s.restartEnded()
}

// restartsWithin is how soon a process that ended is noticed.
const restartsWithin = 5 * time.Second

// waitUntil has time pass, and processes that end meanwhile start again.
func (s *script) waitUntil(at time.Time) {
	for time.Until(at) > 0 {
		time.Sleep(min(restartsWithin, time.Until(at)))
		s.restartEnded()
	}
}

// restartEnded does what a Deployment does: it starts the process again.
func (s *script) restartEnded() {
	running := s.karve[:0]
	for _, p := range s.karve {
		select {
		case <-p.done:
			s.world.say("%s ended: %v", p.name, p.err)
		default:
			running = append(running, p)
		}
	}
	if s.karve = running; len(running) == 0 {
		s.startKarve()
	}
}

// dismiss takes away what users wished for: workloads first, and pools when the cluster has had time.
func (s *script) dismiss() {
	w := s.world
	for _, x := range w.objects.replicaSets() {
		s.do("deleting "+x.Name, w.client.Delete(w.ctx, x))
	}
	for _, p := range w.objects.pods() {
		if len(p.OwnerReferences) == 0 {
			s.do("deleting "+p.Name, w.client.Delete(w.ctx, p))
		}
	}
	time.Sleep(10 * time.Minute)
	for _, p := range w.objects.pools() {
		s.do("deleting "+p.Name, w.client.Delete(w.ctx, p))
	}
}

// drawAction is something that a user, Azure or a process does.
func drawAction(r *rand.Rand) step {
	n, m := r.IntN(1<<20), r.IntN(1<<20)
	d := 10*time.Second + time.Duration(r.Int64N(int64(110*time.Second)))
	switch r.IntN(16) {
	case 0, 1, 2, 3:
		return step{what: fmt.Sprintf("workload %d has %d replicas", n, m%20), do: func(s *script) { s.scale(n, int32(m%20)) }}
	case 4:
		return step{what: fmt.Sprintf("workload %d restarts", n), do: func(s *script) { s.restartWorkload(n) }}
	case 5:
		return step{what: fmt.Sprintf("pool %d changes its template", n), do: func(s *script) {
			s.changePool(n, func(p *karpv1.NodePool) { p.Spec.Template.Labels["generation"] = fmt.Sprint(m) })
		}}
	case 6:
		return step{what: fmt.Sprintf("pool %d changes its limits and budgets", n), do: func(s *script) {
			s.changePool(n, func(p *karpv1.NodePool) {
				p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(8 + m%60))}
				p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: []string{"0", "1", "30%", "100%"}[m%4]}}
			})
		}}
	case 7:
		return step{what: fmt.Sprintf("a user deletes node %d", n), do: func(s *script) {
			if x := nth(s.world.objects.nodes(), n); x != nil {
				s.do("deleting node "+x.Name, s.world.client.Delete(s.world.ctx, x))
			}
		}}
	case 8:
		return step{what: fmt.Sprintf("a user deletes nodeclaim %d", n), do: func(s *script) {
			if x := nth(s.world.objects.claims(), n); x != nil {
				s.do("deleting nodeclaim "+x.Name, s.world.client.Delete(s.world.ctx, x))
			}
		}}
	case 9:
		return step{what: fmt.Sprintf("Azure evicts spot VM %d", n), do: func(s *script) { s.evict(n) }}
	case 10:
		return step{what: fmt.Sprintf("pool %d is deleted and made anew", n), do: func(s *script) { s.remakePool(n) }}
	case 11, 12:
		return step{what: fmt.Sprintf("karve is killed, and starts again %v later", d/10), do: func(s *script) { s.crash(d / 10) }}
	case 13:
		return step{what: fmt.Sprintf("karve is stopped for %v, while another takes over", d), do: func(s *script) { s.stopLeader(d) }}
	case 14:
		return step{what: "karve is deployed anew: the new one waits for the lease", do: func(s *script) { s.rollOut(s.features) }}
	}
	return step{what: "the API server forgets past changes", do: func(s *script) { s.world.api.Forget() }}
}

func nth[T any](of []T, n int) (zero T) {
	if len(of) == 0 {
		return zero
	}
	return of[n%len(of)]
}

func (s *script) scale(n int, replicas int32) {
	x := nth(s.world.objects.replicaSets(), n)
	if x == nil {
		return
	}
	changed := x.DeepCopy()
	changed.Spec.Replicas = &replicas
	s.do("scaling "+x.Name, s.world.client.Patch(s.world.ctx, changed, client.MergeFrom(x)))
}

// restartWorkload deletes all pods of a workload.
func (s *script) restartWorkload(n int) {
	x := nth(s.world.objects.replicaSets(), n)
	if x == nil {
		return
	}
	for _, p := range s.world.objects.pods() {
		if p.Labels["app"] == x.Name {
			s.do("deleting pod "+p.Name, s.world.client.Delete(s.world.ctx, p))
		}
	}
}

func (s *script) changePool(n int, change func(*karpv1.NodePool)) {
	x := nth(s.world.objects.pools(), n)
	if x == nil {
		return
	}
	changed := x.DeepCopy()
	if changed.Spec.Template.Labels == nil {
		changed.Spec.Template.Labels = map[string]string{}
	}
	change(changed)
	s.do("changing "+x.Name, s.world.client.Patch(s.world.ctx, changed, client.MergeFrom(x)))
}

func (s *script) remakePool(n int) {
	x := nth(s.world.objects.pools(), n)
	if x == nil {
		return
	}
	s.do("deleting "+x.Name, s.world.client.Delete(s.world.ctx, x))
	i := slices.IndexFunc(s.pools, func(p *karpv1.NodePool) bool { return p.Name == x.Name })
	time.Sleep(time.Second)
	s.do("creating "+x.Name, s.world.client.Create(s.world.ctx, s.pools[i].DeepCopy()))
}

func (s *script) evict(n int) {
	var spot []string
	for _, vm := range s.world.azure.State().VMs {
		if vm.Priority == "Spot" {
			spot = append(spot, vm.Name)
		}
	}
	if name := nth(spot, n); name != "" {
		_ = s.world.azure.VMs.Evict(name, 0) // it may be going already
	}
}

func (s *script) crash(down time.Duration) {
	s.world.auditor.disturbed()
	for _, p := range s.karve {
		p.kill()
		<-p.done
	}
	s.karve = nil
	time.Sleep(down)
	s.startKarve()
}

// stopLeader has the process stand still, as after SIGSTOP, while another is there to take over.
func (s *script) stopLeader(d time.Duration) {
	s.restartEnded()
	stopped := s.karve[0]
	stopped.api.Pause()
	s.startKarve()
	time.Sleep(d)
	stopped.api.Resume()
	s.restartEnded()
}

// rollOut replaces the process by one with these features.
func (s *script) rollOut(features manager.Features) {
	s.restartEnded()
	old := s.karve[0]
	s.features = features
	s.startKarve()
	time.Sleep(5 * time.Second)
	old.stop()
	<-old.done
	s.restartEnded()
}
