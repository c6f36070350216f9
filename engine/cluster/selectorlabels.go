// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// selectorLabels are the pod labels that selectors select by. Only these labels tell pod
// classes apart: others, such as a pod-template-hash, would make a class of nearly every pod.
//
// For a pod that is to be placed, only labels count that a selector uses now: otherwise the
// plan would depend on earlier states of the cluster. Bound pods that are not to be placed may
// also differ in labels that selectors used before: otherwise every selector that is added and
// removed would assign all pods of a large cluster to classes again.
type selectorLabels struct {
	users  map[string]int  // by label: the classes whose selectors use it; 0 for a former label
	former map[string]bool // the labels that no class uses any more
}

func newSelectorLabels() selectorLabels {
	return selectorLabels{users: map[string]int{}, former: map[string]bool{}}
}

// distinguishes reports whether pods with different values of the label are in different
// classes.
func (l *selectorLabels) distinguishes(label string, toBePlaced bool) bool {
	users, known := l.users[label]
	return known && (users > 0 || !toBePlaced)
}

// unusedOf returns the labels that the pod's selectors use and that no class uses now: the ones
// that are new, and the former ones.
func (l *selectorLabels) unusedOf(p *Pod) (added, former []string) {
	eachSelector(p, func(s *Selector) {
		for _, r := range s.Labels {
			switch users, known := l.users[r.Key]; {
			case users > 0:
			case known:
				former = with(former, r.Key)
			default:
				added = with(added, r.Key)
			}
		}
	})
	return added, former
}

func with(list []string, label string) []string {
	if slices.Contains(list, label) {
		return list
	}
	return append(list, label)
}

// hasFormer reports whether one of the labels is a former one.
func (l *selectorLabels) hasFormer(labels []labelPair) bool {
	return slices.ContainsFunc(labels, func(label labelPair) bool { return l.former[label.key] })
}

// use counts one more user of the label.
func (l *selectorLabels) use(label string) {
	l.users[label]++
	delete(l.former, label)
}

// release counts one user of the label fewer.
func (l *selectorLabels) release(label string) {
	if l.users[label]--; l.users[label] == 0 {
		l.former[label] = true
	}
}

// known reports whether the label is in use or was before.
func (l *selectorLabels) known(label string) bool { _, ok := l.users[label]; return ok }

func (l *selectorLabels) addFormer(labels []string) {
	for _, label := range labels {
		l.users[label], l.former[label] = 0, true
	}
}

// eachSelector visits the selectors of the pod.
func eachSelector(p *Pod, visit func(*Selector)) {
	for i := range p.Spreads {
		visit(&p.Spreads[i].Selector)
	}
	for i := range p.Affinity {
		visit(&p.Affinity[i].Selector)
	}
	for i := range p.AntiAffinity {
		visit(&p.AntiAffinity[i].Selector)
	}
}

// labelsSelectedBy lists the labels that the pod's selectors use, each once.
func labelsSelectedBy(p *Pod) []string {
	var out []string
	eachSelector(p, func(s *Selector) {
		for _, r := range s.Labels {
			if !slices.Contains(out, r.Key) {
				out = append(out, r.Key)
			}
		}
	})
	return out
}

// hasAny reports whether there is one of the wanted labels, which are few.
func hasAny(labels map[string]string, wanted []string) bool {
	for _, label := range wanted {
		if _, ok := labels[label]; ok {
			return true
		}
	}
	return false
}

// unusedLabels are labels of pods of one class that distinguish none of them, as no selector uses them
// yet. Once one does, only classes that may have it are looked at: there may be far more pods than
// classes.
type unusedLabels struct {
	keys []string
	// many is set when there are too many to list.
	many bool
}

// mostUnused is how many unused labels of a class are listed: few pods have more.
const mostUnused = 32

// add adds the labels of a pod.
func (u *unusedLabels) add(keys []string) {
	for _, key := range keys {
		if u.many || slices.Contains(u.keys, key) {
			continue
		}
		u.keys = append(u.keys, key)
		u.many = len(u.keys) > mostUnused
	}
}

// mayHave reports whether pods of the class may have one of the labels.
func (u *unusedLabels) mayHave(labels []string) bool {
	return u.many || slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(u.keys, l) })
}
