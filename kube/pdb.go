package kube

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// PodBudgets are PodDisruptionBudgets, found by the pods they select. It may be used
// from several goroutines. Nil and the zero value hold none.
type PodBudgets struct {
	mu     sync.RWMutex
	spaces map[string]*budgetSpace // by namespace
}

// budgetSpace is the budgets of a namespace. Most select by a label with a value, and
// are found by one; few pods need to be held against many selectors that way.
type budgetSpace struct {
	byName  map[string]*podBudget
	byLabel map[label][]*podBudget
	others  []*podBudget
}

type label struct{ key, value string }

type podBudget struct {
	name     types.NamespacedName
	selector labels.Selector
	labels   map[string]string // that every selected pod has
	anchor   *label            // one of them, by which the budget is found; nil when there is none
	status   policyv1.PodDisruptionBudgetStatus
	// lagging is set until the status speaks of the newest spec; unhealthy when pods that
	// are not ready may always go.
	lagging, unhealthy bool
	// forGood is set when no pod may ever go while the spec and the number of pods stay.
	forGood bool
}

// NewPodBudgets holds those budgets.
func NewPodBudgets(list ...policyv1.PodDisruptionBudget) *PodBudgets {
	b := &PodBudgets{}
	for i := range list {
		b.Set(&list[i])
	}
	return b
}

// Set adds or replaces a budget. It reports whether that changes anything that a pod
// may be told, and whether it changes which pods are held for good.
func (b *PodBudgets) Set(p *policyv1.PodDisruptionBudget) (changed, lasting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := budgetOf(p)
	old := b.remove(fresh.name)
	b.add(fresh)
	return budgetNews(old, fresh)
}

// Remove forgets a budget. It reports whether there was one.
func (b *PodBudgets) Remove(p *policyv1.PodDisruptionBudget) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove(keyOf(p)) != nil
}

// budgetNews tells what matters about a new version. A budget without the old version
// is news: with another one it makes two, which holds pods for good.
func budgetNews(old, fresh *podBudget) (changed, lasting bool) {
	if old == nil || old.selector.String() != fresh.selector.String() {
		return true, true
	}
	lasting = old.forGood != fresh.forGood || old.unhealthy != fresh.unhealthy || old.healthy() != fresh.healthy()
	open := func(b *podBudget) bool { return !b.lagging && b.status.DisruptionsAllowed > 0 }
	return lasting || open(old) != open(fresh), lasting
}

func budgetOf(p *policyv1.PodDisruptionBudget) *podBudget {
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // as the eviction API has it
	}
	policy := p.Spec.UnhealthyPodEvictionPolicy
	b := &podBudget{
		name:      keyOf(p),
		selector:  selector,
		status:    p.Status,
		lagging:   p.Status.ObservedGeneration < p.Generation,
		unhealthy: policy != nil && *policy == policyv1.AlwaysAllow,
	}
	if p.Spec.Selector != nil {
		b.labels = p.Spec.Selector.MatchLabels
	}
	b.forGood = neverAllows(&p.Spec) || !b.lagging && p.Status.ExpectedPods > 0 && p.Status.DesiredHealthy >= p.Status.ExpectedPods
	return b
}

// anchor picks the label that tells most pods apart so far.
func (s *budgetSpace) anchor(of map[string]string) *label {
	var best *label
	for _, key := range slices.Sorted(maps.Keys(of)) {
		l := label{key, of[key]}
		if best == nil || len(s.byLabel[l]) < len(s.byLabel[*best]) {
			best = &l
		}
	}
	return best
}

// neverAllows reports whether the spec alone forbids every eviction.
func neverAllows(s *policyv1.PodDisruptionBudgetSpec) bool {
	is := func(v *intstr.IntOrString, text string) bool { return v != nil && v.String() == text }
	return is(s.MaxUnavailable, "0") || is(s.MaxUnavailable, "0%") || is(s.MinAvailable, "100%")
}

func (b *PodBudgets) add(x *podBudget) {
	if b.spaces == nil {
		b.spaces = map[string]*budgetSpace{}
	}
	space := b.spaces[x.name.Namespace]
	if space == nil {
		space = &budgetSpace{byName: map[string]*podBudget{}, byLabel: map[label][]*podBudget{}}
		b.spaces[x.name.Namespace] = space
	}
	space.byName[x.name.Name] = x
	if x.anchor = space.anchor(x.labels); x.anchor == nil {
		space.others = append(space.others, x)
		return
	}
	space.byLabel[*x.anchor] = append(space.byLabel[*x.anchor], x)
}

func (b *PodBudgets) remove(name types.NamespacedName) *podBudget {
	space := b.spaces[name.Namespace]
	if space == nil || space.byName[name.Name] == nil {
		return nil
	}
	old := space.byName[name.Name]
	delete(space.byName, name.Name)
	is := func(x *podBudget) bool { return x == old }
	if old.anchor == nil {
		space.others = slices.DeleteFunc(space.others, is)
	} else if rest := slices.DeleteFunc(space.byLabel[*old.anchor], is); len(rest) > 0 {
		space.byLabel[*old.anchor] = rest
	} else {
		delete(space.byLabel, *old.anchor)
	}
	if len(space.byName) == 0 {
		delete(b.spaces, name.Namespace)
	}
	return old
}

// of lists the budgets that select the pod, by name.
func (b *PodBudgets) of(p *corev1.Pod) (out []*podBudget) {
	if b == nil {
		return nil
	}
	space := b.spaces[p.Namespace]
	if space == nil {
		return nil
	}
	set := labels.Set(p.Labels)
	if len(space.byLabel) > 0 {
		for key, value := range p.Labels {
			out = appendMatches(out, space.byLabel[label{key, value}], set)
		}
	}
	out = appendMatches(out, space.others, set)
	if len(out) > 1 {
		slices.SortFunc(out, func(x, y *podBudget) int { return strings.Compare(x.name.Name, y.name.Name) })
	}
	return out
}

func appendMatches(out, from []*podBudget, set labels.Set) []*podBudget {
	for _, x := range from {
		if x.selector.Matches(set) {
			out = append(out, x)
		}
	}
	return out
}

// Refusal is why the eviction API would not let a pod go now. The zero Refusal says
// that it would.
type Refusal struct {
	// Budgets are the names of those that select the pod, sorted: the one that forbids it,
	// or several, which the API does not deal with.
	Budgets []types.NamespacedName
	// ForGood is set when waiting does not help: the budgets or the number of pods must
	// change first.
	ForGood bool
	// Status is what the budget says, when it is one.
	Status policyv1.PodDisruptionBudgetStatus
}

// Refused judges the pod as the eviction API does.
func (b *PodBudgets) Refused(p *corev1.Pod) Refusal {
	if b == nil || unbudgeted(p) {
		return Refusal{}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := b.of(p)
	switch {
	case len(found) > 1:
		r := Refusal{ForGood: true}
		for _, x := range found {
			r.Budgets = append(r.Budgets, x.name)
		}
		return r
	case len(found) == 0 || found[0].admits(p):
		return Refusal{}
	}
	return Refusal{Budgets: []types.NamespacedName{found[0].name}, ForGood: found[0].forGood, Status: found[0].status}
}

// unbudgeted pods go whatever any budget says: the API does not ask for pods that have
// not started, are finished or are going.
func unbudgeted(p *corev1.Pod) bool {
	return Terminal(p) || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending
}

func (b *podBudget) admits(p *corev1.Pod) bool {
	if !podReady(p) && (b.unhealthy || b.healthy()) {
		return true
	}
	return !b.lagging && b.status.DisruptionsAllowed > 0
}

// healthy reports whether enough pods are ready for one that is not to go.
func (b *podBudget) healthy() bool {
	return b.status.CurrentHealthy >= b.status.DesiredHealthy && b.status.DesiredHealthy > 0
}

func podReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Evictable reports whether draining the pod's node takes the pod away: it runs, is not
// the kubelet's own, and does not mean to stay.
func Evictable(p *corev1.Pod) bool {
	return !Terminal(p) && p.DeletionTimestamp == nil && !Static(p) && !ToleratesDisruption(p)
}

// ToleratesDisruption reports whether the pod means to stay on a node that is drained.
func ToleratesDisruption(p *corev1.Pod) bool {
	for i := range p.Spec.Tolerations {
		if Tolerates(p.Spec.Tolerations[i], karpv1.DisruptedNoScheduleTaint) {
			return true
		}
	}
	return false
}
