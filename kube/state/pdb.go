// SPDX-License-Identifier: Apache-2.0

package state

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/kube"
)

// PDBs holds PodDisruptionBudgets, indexed by the pods they select. It may be used from
// several goroutines. Nil and the zero value hold none.
type PDBs struct {
	mu         sync.RWMutex
	namespaces map[string]*pdbIndex // by namespace
	// surging are pods that leave by rolling restarts; see Mirror.SetSurging.
	surging map[types.UID]bool
}

// pdbIndex is the PodDisruptionBudgets of a namespace. Most select by a label with a value and
// are indexed by it, so a pod is matched against few selectors.
type pdbIndex struct {
	byName  map[string]*pdb
	byLabel []labelIndex // few: most namespaces use one key
	others  []*pdb
}

// labelIndex is the PodDisruptionBudgets that are found by the value of one label.
type labelIndex struct {
	key     string
	byValue map[string][]*pdb
}

// label is a label that all pods selected by a PodDisruptionBudget have. Every pod has the zero
// label.
type label struct{ key, value string }

// labelSet is labels, by key and value. What a pod costs to look at depends on its number of keys
// alone: a rollout changes thousands of PodDisruptionBudgets, which select by one key.
type labelSet map[string]map[string]bool

func (s labelSet) add(l label) { set(s, l.key, l.value) }

// anyOf reports whether the pod has any of the labels.
func (s labelSet) anyOf(p *corev1.Pod) bool {
	if s[label{}.key] != nil {
		return true
	}
	for key, values := range s {
		if value, ok := p.Labels[key]; ok && values[value] {
			return true
		}
	}
	return false
}

type pdb struct {
	name       types.NamespacedName
	selector   labels.Selector
	labels     map[string]string // that every selected pod has
	indexLabel label             // one of them, by which the budget is found; zero when there is none
	exact      bool              // every pod with the indexLabel label is selected
	status     policyv1.PodDisruptionBudgetStatus
	// statusOutdated is set until the status reflects the newest spec; alwaysAllowsUnready when
	// pods that are not ready may always be evicted.
	statusOutdated, alwaysAllowsUnready bool
	// forGood is set when no pod can be evicted until the spec or the number of pods changes.
	forGood bool
}

// NewPDBs returns PDBs with those budgets.
func NewPDBs(list ...policyv1.PodDisruptionBudget) *PDBs {
	b := &PDBs{}
	for i := range list {
		b.set(&list[i])
	}
	return b
}

// Set adds or replaces a PodDisruptionBudget.
func (b *PDBs) Set(p *policyv1.PodDisruptionBudget) { b.set(p) }

// set is Set, and returns what changes.
func (b *PDBs) set(p *policyv1.PodDisruptionBudget) pdbChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := newPDB(p)
	old := b.take(fresh.name)
	b.insert(fresh)
	if old == nil {
		return pdbChange{any: true, about: []label{fresh.indexLabel}}
	}
	return fresh.changeSince(old)
}

// remove forgets a PodDisruptionBudget.
func (b *PDBs) remove(p *policyv1.PodDisruptionBudget) pdbChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.take(client.ObjectKeyFromObject(p)); old != nil {
		return pdbChange{any: true, about: []label{old.indexLabel}}
	}
	return pdbChange{}
}

// pdbChange is the effect of a new version of a PodDisruptionBudget.
type pdbChange struct {
	// any is set when the answer for some pod differs from before.
	any bool
	// about has labels of the pods that the budget may now keep from eviction for good, or may
	// no longer.
	about []label
}

func (b *pdb) changeSince(old *pdb) pdbChange {
	if old.selector.String() != b.selector.String() {
		return pdbChange{any: true, about: []label{old.indexLabel, b.indexLabel}}
	}
	open := func(b *pdb) bool { return !b.statusOutdated && b.status.DisruptionsAllowed > 0 }
	unreadyPods := old.alwaysAllowsUnready != b.alwaysAllowsUnready || old.healthy() != b.healthy()
	if old.forGood != b.forGood || b.forGood && (unreadyPods || open(old) != open(b)) {
		return pdbChange{any: true, about: []label{b.indexLabel}}
	}
	return pdbChange{any: unreadyPods || open(old) != open(b)}
}

func newPDB(p *policyv1.PodDisruptionBudget) *pdb {
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // as the eviction API treats it
	}
	policy := p.Spec.UnhealthyPodEvictionPolicy
	b := &pdb{
		name:                client.ObjectKeyFromObject(p),
		selector:            selector,
		status:              p.Status,
		statusOutdated:      p.Status.ObservedGeneration < p.Generation,
		alwaysAllowsUnready: policy != nil && *policy == policyv1.AlwaysAllow,
	}
	if s := p.Spec.Selector; s != nil {
		b.labels = s.MatchLabels
		b.exact = err == nil && len(s.MatchLabels) == 1 && len(s.MatchExpressions) == 0
	}
	b.forGood = neverAllows(&p.Spec) || !b.statusOutdated && p.Status.ExpectedPods > 0 && p.Status.DesiredHealthy >= p.Status.ExpectedPods
	return b
}

// indexLabel picks the label that the fewest budgets are indexed by so far.
func (s *pdbIndex) indexLabel(of map[string]string) (best label) {
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

func (s *pdbIndex) find(key string) int {
	return slices.IndexFunc(s.byLabel, func(l labelIndex) bool { return l.key == key })
}

// neverAllows reports whether the spec alone forbids every eviction.
func neverAllows(s *policyv1.PodDisruptionBudgetSpec) bool {
	is := func(v *intstr.IntOrString, text string) bool { return v != nil && v.String() == text }
	return is(s.MaxUnavailable, "0") || is(s.MaxUnavailable, "0%") || is(s.MinAvailable, "100%")
}

// insert adds a PodDisruptionBudget to the index.
func (b *PDBs) insert(x *pdb) {
	if b.namespaces == nil {
		b.namespaces = map[string]*pdbIndex{}
	}
	index := b.namespaces[x.name.Namespace]
	if index == nil {
		index = &pdbIndex{byName: map[string]*pdb{}}
		b.namespaces[x.name.Namespace] = index
	}
	index.insert(x)
}

func (s *pdbIndex) insert(x *pdb) {
	s.byName[x.name.Name] = x
	x.indexLabel = s.indexLabel(x.labels)
	if x.indexLabel == (label{}) {
		s.others = append(s.others, x)
		return
	}
	at := s.find(x.indexLabel.key)
	if at < 0 {
		at = len(s.byLabel)
		s.byLabel = append(s.byLabel, labelIndex{x.indexLabel.key, map[string][]*pdb{}})
	}
	s.byLabel[at].byValue[x.indexLabel.value] = append(s.byLabel[at].byValue[x.indexLabel.value], x)
}

// take removes one from the index and returns it; nil when there is none.
func (b *PDBs) take(name types.NamespacedName) *pdb {
	index := b.namespaces[name.Namespace]
	if index == nil || index.byName[name.Name] == nil {
		return nil
	}
	old := index.byName[name.Name]
	index.remove(old)
	if len(index.byName) == 0 {
		delete(b.namespaces, name.Namespace)
	}
	return old
}

func (s *pdbIndex) remove(old *pdb) {
	delete(s.byName, old.name.Name)
	is := func(x *pdb) bool { return x == old }
	if old.indexLabel == (label{}) {
		s.others = slices.DeleteFunc(s.others, is)
		return
	}
	at := s.find(old.indexLabel.key)
	byValue := s.byLabel[at].byValue
	if rest := slices.DeleteFunc(byValue[old.indexLabel.value], is); len(rest) > 0 {
		byValue[old.indexLabel.value] = rest
		return
	}
	delete(byValue, old.indexLabel.value)
	if len(byValue) == 0 {
		s.byLabel = slices.Delete(s.byLabel, at, at+1)
	}
}

// of appends the budgets that select the pod to out, which is empty, sorted by name.
func (b *PDBs) of(p *corev1.Pod, out []*pdb) []*pdb {
	index := b.namespaces[p.Namespace]
	if index == nil {
		return out
	}
	set := labels.Set(p.Labels)
	for i := range index.byLabel {
		if value, ok := p.Labels[index.byLabel[i].key]; ok {
			out = appendMatches(out, index.byLabel[i].byValue[value], set)
		}
	}
	out = appendMatches(out, index.others, set)
	if len(out) > 1 {
		slices.SortFunc(out, func(x, y *pdb) int { return strings.Compare(x.name.Name, y.name.Name) })
	}
	return out
}

func appendMatches(out, from []*pdb, set labels.Set) []*pdb {
	for _, x := range from {
		if x.exact || x.selector.Matches(set) {
			out = append(out, x)
		}
	}
	return out
}

// Ask answers as the eviction API does, except that no budget refuses a pod that leaves by a
// rolling restart (see Mirror.SetSurging).
func (b *PDBs) Ask(p *corev1.Pod) kube.EvictionAnswer {
	r := b.evaluate(p)
	if len(r.RefusedBy) > 0 && b.isSurging(p) {
		return kube.EvictionAnswer{}
	}
	return r
}

func (b *PDBs) evaluate(p *corev1.Pod) kube.EvictionAnswer {
	if b == nil || exemptFromPDBs(p) {
		return kube.EvictionAnswer{}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	var buffer [2]*pdb // enough for nearly all pods
	found := b.of(p, buffer[:0])
	switch {
	case len(found) > 1:
		r := kube.EvictionAnswer{ForGood: true}
		for _, x := range found {
			r.RefusedBy = append(r.RefusedBy, x.name)
		}
		return r
	case len(found) == 0:
		return kube.EvictionAnswer{}
	case found[0].allows(p):
		return kube.EvictionAnswer{AllowedBy: found[0].name, Allowed: int(found[0].status.DisruptionsAllowed)}
	}
	return kube.EvictionAnswer{RefusedBy: []types.NamespacedName{found[0].name}, ForGood: found[0].forGood, Status: found[0].status}
}

// exemptFromPDBs reports whether the pod can be evicted whatever any budget says: the API does not
// check budgets for pods that have not started, are finished or are terminating.
func exemptFromPDBs(p *corev1.Pod) bool {
	return kube.Terminal(p) || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending
}

func (b *pdb) allows(p *corev1.Pod) bool {
	if !kube.PodReady(p) && (b.alwaysAllowsUnready || b.healthy()) {
		return true
	}
	return !b.statusOutdated && b.status.DisruptionsAllowed > 0
}

// healthy reports whether enough pods are ready, so that one that is not ready may be evicted.
func (b *pdb) healthy() bool {
	return b.status.CurrentHealthy >= b.status.DesiredHealthy && b.status.DesiredHealthy > 0
}

// MaySurge reports whether the eviction API refuses to evict a pod that may be the only one of a
// Deployment. Such a pod can leave by a rolling restart, which disruption budgets do not
// restrict.
func (b *PDBs) MaySurge(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind != "ReplicaSet" || !kube.PodReady(p) {
		return false
	}
	r := b.evaluate(p)
	return len(r.RefusedBy) > 1 || len(r.RefusedBy) == 1 && r.Status.ExpectedPods == 1
}

// isSurging reports whether the pod leaves by a rolling restart.
func (b *PDBs) isSurging(p *corev1.Pod) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.surging[p.UID]
}

// setSurging replaces the set of pods that leave by rolling restarts, and returns the pods that
// were added or removed.
func (b *PDBs) setSurging(pods map[types.UID]bool) (changed []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range pods {
		if !b.surging[uid] {
			changed = append(changed, string(uid))
		}
	}
	for uid := range b.surging {
		if !pods[uid] {
			changed = append(changed, string(uid))
		}
	}
	b.surging = maps.Clone(pods)
	return changed
}

// clear forgets all budgets.
func (b *PDBs) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.namespaces = nil
}
