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

// PodBudgets holds PodDisruptionBudgets, found by the pods they select. It may be used from
// several goroutines. Nil and the zero value hold none.
type PodBudgets struct {
	mu     sync.RWMutex
	spaces map[string]*budgetSpace // by namespace
	// surging are pods that leave by rolling restarts; see Mirror.Surging.
	surging map[types.UID]bool
}

// budgetSpace is the budgets of a namespace. Most select by a label with a value and are indexed
// by it, so a pod is matched against few selectors.
type budgetSpace struct {
	byName  map[string]*podBudget
	byLabel []labelled // few: most namespaces use one key
	others  []*podBudget
}

// labelled is the budgets that are found by the value of one label.
type labelled struct {
	key     string
	byValue map[string][]*podBudget
}

// label is a label that all pods selected by a budget have. Every pod has the zero label.
type label struct{ key, value string }

func (l label) of(p *corev1.Pod) bool {
	value, ok := p.Labels[l.key]
	return l == label{} || ok && value == l.value
}

type podBudget struct {
	name     types.NamespacedName
	selector labels.Selector
	labels   map[string]string // that every selected pod has
	anchor   label             // one of them, by which the budget is found; zero when there is none
	exact    bool              // every pod with the anchor label is selected
	status   policyv1.PodDisruptionBudgetStatus
	// lagging is set until the status reflects the newest spec; unhealthy when pods that are not
	// ready may always be evicted.
	lagging, unhealthy bool
	// forGood is set when no pod can be evicted while the spec and the number of pods stay as
	// they are.
	forGood bool
}

// NewPodBudgets returns PodBudgets with those budgets.
func NewPodBudgets(list ...policyv1.PodDisruptionBudget) *PodBudgets {
	b := &PodBudgets{}
	for i := range list {
		b.Set(&list[i])
	}
	return b
}

// Set adds or replaces a budget.
func (b *PodBudgets) Set(p *policyv1.PodDisruptionBudget) budgetNews {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := budgetOf(p)
	old := b.remove(fresh.name)
	b.add(fresh)
	if old == nil {
		return budgetNews{changed: true, about: []label{fresh.anchor}}
	}
	return fresh.newsSince(old)
}

// Remove forgets a budget.
func (b *PodBudgets) Remove(p *policyv1.PodDisruptionBudget) budgetNews {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.remove(keyOf(p)); old != nil {
		return budgetNews{changed: true, about: []label{old.anchor}}
	}
	return budgetNews{}
}

// budgetNews is what a new version of a budget changes.
type budgetNews struct {
	// changed is set when the answer for some pod differs from before.
	changed bool
	// about has labels of the pods that may have become held for good, or no longer are.
	about []label
}

func (b *podBudget) newsSince(old *podBudget) budgetNews {
	if old.selector.String() != b.selector.String() {
		return budgetNews{changed: true, about: []label{old.anchor, b.anchor}}
	}
	open := func(b *podBudget) bool { return !b.lagging && b.status.DisruptionsAllowed > 0 }
	lenient := old.unhealthy != b.unhealthy || old.healthy() != b.healthy()
	if old.forGood != b.forGood || b.forGood && (lenient || open(old) != open(b)) {
		return budgetNews{changed: true, about: []label{b.anchor}}
	}
	return budgetNews{changed: lenient || open(old) != open(b)}
}

func budgetOf(p *policyv1.PodDisruptionBudget) *podBudget {
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // as the eviction API treats it
	}
	policy := p.Spec.UnhealthyPodEvictionPolicy
	b := &podBudget{
		name:      keyOf(p),
		selector:  selector,
		status:    p.Status,
		lagging:   p.Status.ObservedGeneration < p.Generation,
		unhealthy: policy != nil && *policy == policyv1.AlwaysAllow,
	}
	if s := p.Spec.Selector; s != nil {
		b.labels = s.MatchLabels
		b.exact = err == nil && len(s.MatchLabels) == 1 && len(s.MatchExpressions) == 0
	}
	b.forGood = neverAllows(&p.Spec) || !b.lagging && p.Status.ExpectedPods > 0 && p.Status.DesiredHealthy >= p.Status.ExpectedPods
	return b
}

// anchor picks the label that the fewest budgets are indexed by so far.
func (s *budgetSpace) anchor(of map[string]string) (best label) {
	fewest := -1
	for _, key := range slices.Sorted(maps.Keys(of)) {
		n := 0
		if at := s.find(key); at >= 0 {
			n = len(s.byLabel[at].byValue[of[key]])
		}
		if fewest < 0 || n < fewest {
			best, fewest = label{key, of[key]}, n
		}
	}
	return best
}

func (s *budgetSpace) find(key string) int {
	return slices.IndexFunc(s.byLabel, func(l labelled) bool { return l.key == key })
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
		space = &budgetSpace{byName: map[string]*podBudget{}}
		b.spaces[x.name.Namespace] = space
	}
	space.add(x)
}

func (s *budgetSpace) add(x *podBudget) {
	s.byName[x.name.Name] = x
	x.anchor = s.anchor(x.labels)
	if x.anchor == (label{}) {
		s.others = append(s.others, x)
		return
	}
	at := s.find(x.anchor.key)
	if at < 0 {
		at = len(s.byLabel)
		s.byLabel = append(s.byLabel, labelled{x.anchor.key, map[string][]*podBudget{}})
	}
	s.byLabel[at].byValue[x.anchor.value] = append(s.byLabel[at].byValue[x.anchor.value], x)
}

func (b *PodBudgets) remove(name types.NamespacedName) *podBudget {
	space := b.spaces[name.Namespace]
	if space == nil || space.byName[name.Name] == nil {
		return nil
	}
	old := space.byName[name.Name]
	space.remove(old)
	if len(space.byName) == 0 {
		delete(b.spaces, name.Namespace)
	}
	return old
}

func (s *budgetSpace) remove(old *podBudget) {
	delete(s.byName, old.name.Name)
	is := func(x *podBudget) bool { return x == old }
	if old.anchor == (label{}) {
		s.others = slices.DeleteFunc(s.others, is)
		return
	}
	at := s.find(old.anchor.key)
	byValue := s.byLabel[at].byValue
	if rest := slices.DeleteFunc(byValue[old.anchor.value], is); len(rest) > 0 {
		byValue[old.anchor.value] = rest
		return
	}
	delete(byValue, old.anchor.value)
	if len(byValue) == 0 {
		s.byLabel = slices.Delete(s.byLabel, at, at+1)
	}
}

// of appends the budgets that select the pod to out, which is empty, sorted by name.
func (b *PodBudgets) of(p *corev1.Pod, out []*podBudget) []*podBudget {
	space := b.spaces[p.Namespace]
	if space == nil {
		return out
	}
	set := labels.Set(p.Labels)
	for i := range space.byLabel {
		if value, ok := p.Labels[space.byLabel[i].key]; ok {
			out = appendMatches(out, space.byLabel[i].byValue[value], set)
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
		if x.exact || x.selector.Matches(set) {
			out = append(out, x)
		}
	}
	return out
}

// Refusal is why the eviction API would not evict a pod now. The zero Refusal says that it would.
type Refusal struct {
	// Budgets are the names of the budgets that select the pod, sorted: the one that forbids the
	// eviction, or several, which the API does not support.
	Budgets []types.NamespacedName
	// ForGood is set when waiting does not help: the budgets or the number of pods must change
	// first.
	ForGood bool
	// Guard is the budget that allows the eviction now, and Allowed how many it allows; Budgets
	// is empty then.
	Guard   types.NamespacedName
	Allowed int
	// Status is the status of the budget that forbids the eviction, when it is one.
	Status policyv1.PodDisruptionBudgetStatus
}

// Refused answers as the eviction API does, unless no eviction is needed.
func (b *PodBudgets) Refused(p *corev1.Pod) Refusal {
	r := b.judge(p)
	if len(r.Budgets) > 0 && b.surges(p) {
		return Refusal{}
	}
	return r
}

func (b *PodBudgets) judge(p *corev1.Pod) Refusal {
	if b == nil || unbudgeted(p) {
		return Refusal{}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	var space [2]*podBudget // enough for nearly all pods
	found := b.of(p, space[:0])
	switch {
	case len(found) > 1:
		r := Refusal{ForGood: true}
		for _, x := range found {
			r.Budgets = append(r.Budgets, x.name)
		}
		return r
	case len(found) == 0:
		return Refusal{}
	case found[0].admits(p):
		return Refusal{Guard: found[0].name, Allowed: int(found[0].status.DisruptionsAllowed)}
	}
	return Refusal{Budgets: []types.NamespacedName{found[0].name}, ForGood: found[0].forGood, Status: found[0].status}
}

// unbudgeted reports whether the pod can be evicted whatever any budget says: the API does not
// check budgets for pods that have not started, are finished or are terminating.
func unbudgeted(p *corev1.Pod) bool {
	return Terminal(p) || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending
}

func (b *podBudget) admits(p *corev1.Pod) bool {
	if !podReady(p) && (b.unhealthy || b.healthy()) {
		return true
	}
	return !b.lagging && b.status.DisruptionsAllowed > 0
}

// healthy reports whether enough pods are ready, so that one that is not ready may be evicted.
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

// Evictable reports whether draining the pod's node evicts the pod: it runs, is not a static pod,
// and does not tolerate the disruption taint.
func Evictable(p *corev1.Pod) bool {
	return !Terminal(p) && p.DeletionTimestamp == nil && !Static(p) && !ToleratesDisruption(p)
}

// ToleratesDisruption reports whether the pod tolerates the taint of a node that is drained.
func ToleratesDisruption(p *corev1.Pod) bool {
	for i := range p.Spec.Tolerations {
		if Tolerates(p.Spec.Tolerations[i], karpv1.DisruptedNoScheduleTaint) {
			return true
		}
	}
	return false
}
