// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
)

// selectorLabels are the pod labels that selectors select by. Only these labels tell pod
// classes apart: others, such as a pod-template-hash, would make a class of nearly every pod.
//
// For a pod that is to be placed, only labels count that a selector uses now: otherwise the
// plan would depend on earlier states of the cluster. Bound pods that are not to be placed may
// also differ in labels that selectors used before: otherwise every selector that is added and
// removed would assign all pods of a large cluster to classes again.
type selectorLabels struct {
	users  map[string]int  // by label in use: the classes whose selectors use it
	former map[string]bool // the labels that no class uses any more
	inUse  []string        // the keys of users, sorted; nil after a change, see few
}

func newSelectorLabels() selectorLabels {
	return selectorLabels{users: map[string]int{}, former: map[string]bool{}}
}

// distinguishes reports whether pods with different values of the label are in different
// classes.
func (l *selectorLabels) distinguishes(label string, toBePlaced bool) bool {
	return l.users[label] > 0 || !toBePlaced && l.former[label]
}

// fewInUse is how many labels are looked up in those of a pod: beyond that, a walk over the pod's
// labels is faster.
const fewInUse = 8

// few returns the labels that distinguish pods, sorted. It reports false when they may not be few.
func (l *selectorLabels) few(toBePlaced bool) ([]string, bool) {
	if len(l.users) > fewInUse || !toBePlaced && len(l.former) > 0 {
		return nil, false
	}
	if len(l.inUse) < len(l.users) {
		l.inUse = slices.Sorted(maps.Keys(l.users))
	}
	return l.inUse, true
}

// unusedOf returns the labels that the pod's selectors use and that no class uses now: the ones
// that are new, and the former ones.
func (l *selectorLabels) unusedOf(p *Pod) (added, former []string) {
	eachSelector(p, func(s *Selector) {
		for _, r := range s.Labels {
			switch {
			case l.users[r.Key] > 0:
			case l.former[r.Key]:
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
	if l.users[label]++; l.users[label] == 1 {
		l.inUse = nil
		delete(l.former, label)
	}
}

// release counts one user of the label fewer.
func (l *selectorLabels) release(label string) {
	if l.users[label]--; l.users[label] == 0 {
		l.inUse = nil
		delete(l.users, label)
		l.former[label] = true
	}
}

// known reports whether the label is in use or was before.
func (l *selectorLabels) known(label string) bool { return l.users[label] > 0 || l.former[label] }

func (l *selectorLabels) addFormer(labels []string) {
	for _, label := range labels {
		if l.users[label] == 0 {
			l.former[label] = true
		}
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

// unusedLabels are labels of pods of one class that distinguish none of them, as no selector uses
// them yet. Once one does, only classes that may have it are looked at: there may be far more pods than
// classes.
type unusedLabels struct {
	keys []string
	// many is set when there are too many to list.
	many bool
}

// mostUnused is how many unused labels of a class are listed: few pods have more.
const mostUnused = 32

// addOf adds the labels of a pod but those that distinguish it. Pods of a class are distinguished by
// the same labels, so none of these is listed, and to count those that are tells whether one is new.
func (u *unusedLabels) addOf(labels map[string]string, distinguishing []string) {
	if u.many {
		return
	}
	known := len(distinguishing)
	for _, key := range u.keys {
		if _, ok := labels[key]; ok {
			known++
		}
	}
	if known == len(labels) {
		return
	}
	for key := range labels {
		switch {
		case slices.Contains(distinguishing, key) || slices.Contains(u.keys, key):
		case len(u.keys) == mostUnused:
			u.keys, u.many = nil, true
			return
		default:
			u.keys = append(u.keys, key)
		}
	}
}

// mayHave reports whether pods of the class may have one of the labels.
func (u *unusedLabels) mayHave(labels []string) bool {
	return u.many || slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(u.keys, l) })
}
