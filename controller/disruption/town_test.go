// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// town is a simulated cluster: owners, a scheduler and disruption budgets around the
// real controllers, and checks of the promises to users. The checks share nothing with
// the controllers but the API.
type town struct {
	*controllertest.Env
	rng  *rand.Rand
	apps []*app
	down int // of the pool's nodes, that its budget allows

	crashes  int
	moves    int                  // nodes that went by one
	going    map[string]bool      // claims seen on their way out
	guarded  map[types.UID]string // pods that asked to be left alone, and their nodes
	pdbs     map[string]int       // evictions left by app, as of this step
	problems []string
}

// app is a Deployment.
type app struct {
	name        string
	cpu, memory string
	want, born  int
	maxDown     int // of its PodDisruptionBudget; negative for none
	alone       bool
}

func newTown(t *testing.T, seed uint64) *town {
	w := &town{rng: rand.New(rand.NewPCG(seed, 0x70)), going: map[string]bool{}, guarded: map[types.UID]string{}, pdbs: map[string]int{}}
	w.Env = controllertest.New(t, memory.Options{Create: 20 * time.Second, Delete: 5 * time.Second})
	w.Disrupt = func(c *disruption.Options) {
		c.Search, c.Recheck = disrupt.Search, disrupt.Recheck
		c.Settings, c.Validation = disrupt.Settings{SpotToSpot: true}, 15*time.Second
		w.Termination.Evictor = termination.NewEvictor(w.judge(), w.Events, w.Metrics, w.Termination.Log)
	}
	w.Restart()
	w.Pace = 10 * time.Second
	w.down = 1 + w.rng.IntN(3)
	pool := controllertest.Pool("web", "30s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: fmt.Sprint(w.down)}}
	w.Create(pool)
	for i := range 4 + w.rng.IntN(3) {
		a := &app{
			name: fmt.Sprint("app", i), want: 2 + w.rng.IntN(5), maxDown: []int{-1, 1, 2}[w.rng.IntN(3)],
			cpu: []string{"300m", "700m", "1500m"}[w.rng.IntN(3)], memory: []string{"500Mi", "2Gi"}[w.rng.IntN(2)],
		}
		if w.rng.IntN(5) == 0 {
			a.alone, a.want = true, 1
		}
		if a.maxDown >= 0 {
			w.Create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: a.name}, Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": a.name}}, MaxUnavailable: &intstr.IntOrString{IntVal: int32(a.maxDown)},
			}})
		}
		w.apps = append(w.apps, a)
	}
	return w
}

func (w *town) problem(format string, args ...any) {
	w.problems = append(w.problems, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// judge is the API server's part in an eviction.
func (w *town) judge() client.Client {
	return interceptor.NewClient(w.API, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			name := o.GetLabels()["app"]
			if left, budgeted := w.pdbs[name]; budgeted {
				if left < 1 {
					return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
				}
				w.pdbs[name]--
			}
			if w.guarded[o.GetUID()] != "" {
				w.problem("%s is evicted although it asked to be left alone", o.GetName())
			}
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
	})
}

// step simulates all other components, then runs karve, and checks its actions.
func (w *town) step() {
	w.Join()
	for _, a := range w.apps {
		w.own(a)
	}
	w.schedule()
	w.count()
	w.Step()
	w.look()
}

// own keeps as many pods as the app's replicas.
func (w *town) own(a *app) {
	var mine []corev1.Pod
	for _, p := range w.Pods() {
		if p.Labels["app"] == a.name {
			mine = append(mine, p)
		}
	}
	for range a.want - len(mine) {
		a.born++
		p := controllertest.Pod(fmt.Sprintf("%s-%d", a.name, a.born), a.cpu, a.memory)
		p.Labels = map[string]string{"app": a.name}
		if a.alone {
			p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		}
		w.Create(p)
	}
	for i := a.want; i < len(mine); i++ {
		delete(w.guarded, mine[i].UID)
		w.Delete(&mine[i])
	}
}

// schedule binds pods that fit to the node with the most free capacity.
func (w *town) schedule() {
	free := map[string]int64{}
	memory := map[string]int64{}
	for _, n := range w.Nodes() {
		if open(&n) {
			free[n.Name], memory[n.Name] = n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value()
		}
	}
	pods := w.Pods()
	for _, p := range pods {
		if _, ok := free[p.Spec.NodeName]; ok {
			free[p.Spec.NodeName] -= cpuOf(&p)
			memory[p.Spec.NodeName] -= memoryOf(&p)
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			continue
		}
		best := ""
		for name, left := range free {
			if left >= cpuOf(&p) && memory[name] >= memoryOf(&p) && (best == "" || left > free[best] || left == free[best] && name < best) {
				best = name
			}
		}
		if best == "" {
			continue
		}
		w.Bind(p.Name, best)
		free[best] -= cpuOf(&p)
		memory[best] -= memoryOf(&p)
		if p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
			w.guarded[p.UID] = best
		}
	}
}

func cpuOf(p *corev1.Pod) int64 { return p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }

func memoryOf(p *corev1.Pod) int64 {
	return p.Spec.Containers[0].Resources.Requests.Memory().Value()
}

// count is the disruption controller's part: how many evictions each budget allows.
func (w *town) count() {
	for _, a := range w.apps {
		if a.maxDown < 0 {
			continue
		}
		b := controllertest.Get(w.Env, &policyv1.PodDisruptionBudget{}, a.name)
		allowed := int32(max(0, w.healthy(a)-(a.want-a.maxDown)))
		w.pdbs[a.name] = int(allowed)
		if b.Status.DisruptionsAllowed != allowed || b.Status.ObservedGeneration == 0 {
			b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = allowed, 1
			b.Status.ExpectedPods, b.Status.CurrentHealthy = int32(a.want), int32(w.healthy(a))
			if err := w.API.Update(context.Background(), b); err != nil {
				w.T.Fatal(err)
			}
		}
		w.Mirror.SetPDB(b)
	}
}

func (w *town) healthy(a *app) int {
	n := 0
	for _, p := range w.Pods() {
		if p.Labels["app"] == a.name && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// look checks karve's actions against the promises.
func (w *town) look() {
	claims, down, there := w.Claims(), 0, map[string]bool{}
	for _, n := range w.Nodes() {
		there[n.Name] = true // of the others only the claim is left
	}
	for i := range claims {
		c := &claims[i]
		mark, marked, _ := kube.MoveOf(c)
		leaving := c.DeletionTimestamp != nil
		if (marked || leaving) && there[c.Status.NodeName] && kube.ConditionTrue(c, karpv1.ConditionTypeInitialized) && !kube.ConditionTrue(c, karpv1.ConditionTypeInstanceTerminating) {
			down++
		}
		if leaving && !w.going[c.Name] {
			w.going[c.Name] = true
			w.replaced(c, mark, claims)
		}
	}
	if down > w.down {
		w.problem("%d nodes are down, the budget allows %d", down, w.down)
	}
	for _, n := range w.Nodes() {
		if isTainted(&n) && n.DeletionTimestamp == nil {
			w.undisturbed(&n)
		}
	}
}

// replaced: every replacement of a move is ready before the first of its nodes is deleted.
func (w *town) replaced(c *karpv1.NodeClaim, mark kube.MoveMark, claims []karpv1.NodeClaim) {
	ready := 0
	for i := range claims {
		if claims[i].Annotations[kube.ReplacesAnnotation] == mark.ID && kube.ConditionTrue(&claims[i], karpv1.ConditionTypeInitialized) {
			ready++
		}
	}
	if mark.ID != "" {
		w.moves++
	}
	if ready < mark.Replacements {
		w.problem("%s goes when %d of %d replacements are ready", c.Name, ready, mark.Replacements)
	}
}

func (w *town) undisturbed(n *corev1.Node) {
	for uid, node := range w.guarded {
		if node == n.Name && slices.ContainsFunc(w.Pods(), func(p corev1.Pod) bool { return p.UID == uid }) {
			w.problem("%s is tainted under a pod that asked to be left alone", n.Name)
		}
	}
}

// TestTownLivesThroughCrashes runs several small clusters with the
// real controllers, which crash, are refused and lose responses at random writes. Budgets,
// PodDisruptionBudgets and do-not-disrupt hold all the while; in the end all pods run,
// and nothing is left over of any move.
func TestTownLivesThroughCrashes(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	moved, crashes := 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, seed)
			w.live(20 * time.Minute)
			w.Faults.At = 0
			w.rest(seed)
			moved += w.moves
			crashes += w.crashes
			if len(w.problems) > 0 {
				t.Errorf("seed %d: %s", seed, strings.Join(w.problems[:min(5, len(w.problems))], "\n"))
			}
		})
	}
	t.Logf("%d nodes went, karve crashed or was refused %d times", moved, crashes)
	if moved == 0 || crashes == 0 {
		t.Error("that is not much of a test")
	}
}

// live lets the load change and karve crash.
func (w *town) live(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if w.rng.IntN(20) == 0 {
			a := w.apps[w.rng.IntN(len(w.apps))]
			if !a.alone {
				a.want = 1 + w.rng.IntN(8)
			}
		}
		if w.rng.IntN(15) == 0 {
			w.drift()
		}
		if w.rng.IntN(12) == 0 {
			w.crashes++
			w.Faults.Mode = []controllertest.Mode{controllertest.DieAfter, controllertest.Refuse, controllertest.LoseAnswer}[w.rng.IntN(3)]
			w.Faults.At = w.Faults.Writes() + 1 + w.rng.IntN(6)
		}
		w.step()
	}
}

// drift makes some node drift from its pool.
func (w *town) drift() {
	claims := w.Claims()
	if len(claims) == 0 {
		return
	}
	c := &claims[w.rng.IntN(len(claims))]
	c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "")
	if err := w.API.Status().Update(context.Background(), c); err != nil {
		w.T.Fatal(err)
	}
}

// rest waits until nothing changes any more.
func (w *town) rest(seed uint64) {
	quiet := 0
	for range 20 * 6 {
		w.step()
		if quiet++; !w.calm() {
			quiet = 0
		}
		if quiet == 12 {
			return
		}
	}
	for _, c := range w.Claims() {
		w.T.Logf("%s: %v, deleting %v, marked %q, replaces %q; %s", c.Name, c.Labels[corev1.LabelInstanceTypeStable], c.DeletionTimestamp != nil, c.Annotations[kube.MoveAnnotation],
			c.Annotations[kube.ReplacesAnnotation], strings.Join(w.EventTexts(c.Name), "; "))
	}
	w.T.Errorf("seed %d: after twenty quiet minutes: %d pods wait, %d claims, %d nodes, %d instances, marks of moves: %v", seed,
		w.waiting(), len(w.Claims()), len(w.Nodes()), len(w.Cloud.ProviderIDs()), !unmarked(w.Env))
}

func (w *town) waiting() int {
	n := 0
	for _, p := range w.Pods() {
		if p.Spec.NodeName == "" {
			n++
		}
	}
	return n
}

func (w *town) calm() bool {
	n := len(w.Claims())
	return w.waiting() == 0 && n == len(w.Nodes()) && n == len(w.Cloud.ProviderIDs()) && unmarked(w.Env)
}
