// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// podLabel is a label of pods: which selectors look at it, and by which values they decide.
type podLabel struct {
	key    *constraint.Key
	values map[int]*labelValue
	// homed are the selectors whose presentLabel it is. requiring are others that select no pod
	// without the label.
	homed, requiring bitset.Sparse
	// only are the selectors that admit none but the values that they name, unless byValue leads
	// to them.
	only bitset.Sparse
}

// labelValue is a value of a label.
type labelValue struct {
	label   *podLabel
	id      int
	classes []labelled // those whose pods have the value
	// homed are the selectors that have the value in byValue. naming are others that name it: as
	// one that they admit, if the label's only has them, else as one that they do not admit.
	homed, naming bitset.Sparse
}

// labelled is a class that has a value of a label: value is its labelled[i].
type labelled struct {
	class *PodClass
	i     int
}

// classLabel is a label of a class, and where the class is in value.classes.
type classLabel struct {
	value *labelValue
	at    int
}

// podLabelIndex finds selectors by what they require of labels, and classes by the values of
// theirs.
type podLabelIndex struct {
	byKey map[*constraint.Key]*podLabel
	// required are the labels with a non-empty requiring.
	required map[*podLabel]bool
}

func newPodLabelIndex() podLabelIndex {
	return podLabelIndex{byKey: map[*constraint.Key]*podLabel{}, required: map[*podLabel]bool{}}
}

// valueOf returns the entry for a value of a label, which is added when there is none.
func (x *podLabelIndex) valueOf(k *constraint.Key, id int) *labelValue {
	l := x.label(k)
	v := l.values[id]
	if v == nil {
		v = &labelValue{label: l, id: id}
		l.values[id] = v
	}
	return v
}

func (x *podLabelIndex) label(k *constraint.Key) *podLabel {
	l := x.byKey[k]
	if l == nil {
		l = &podLabel{key: k, values: map[int]*labelValue{}}
		x.byKey[k] = l
	}
	return l
}

// dropIfUnused removes a value that no class has and no selector names, and its label with the
// last one.
func (x *podLabelIndex) dropIfUnused(v *labelValue) {
	if len(v.classes) == 0 && v.homed.Empty() && v.naming.Empty() {
		delete(v.label.values, v.id)
		x.dropLabelIfUnused(v.label)
	}
}

func (x *podLabelIndex) dropLabelIfUnused(l *podLabel) {
	if len(l.values) == 0 && l.homed.Empty() && l.requiring.Empty() && l.only.Empty() {
		delete(x.byKey, l.key)
	}
}

// addClass adds a class under its labels.
func (x *podLabelIndex) addClass(c *PodClass, labels *constraint.Interner) {
	c.labelled = make([]classLabel, 0, len(c.labels))
	for _, label := range c.labels {
		k := labels.Key(label.key)
		v := x.valueOf(k, k.ID(label.value))
		c.labelled = append(c.labelled, classLabel{v, len(v.classes)})
		v.classes = append(v.classes, labelled{c, len(c.labelled) - 1})
	}
}

// removeClass undoes addClass.
func (x *podLabelIndex) removeClass(c *PodClass) {
	for _, l := range c.labelled {
		v := l.value
		last := len(v.classes) - 1
		moved := v.classes[last]
		moved.class.labelled[moved.i].at = l.at
		v.classes[l.at] = moved
		v.classes[last], v.classes = labelled{}, v.classes[:last]
		x.dropIfUnused(v)
	}
}

// addSelector adds a selector under its requirements.
func (x *podLabelIndex) addSelector(s *PodSelector) {
	home := homeOf(s.labels)
	for i, q := range s.labels {
		l := x.label(q.Key)
		named, only := q.Named()
		switch {
		case i == home && only:
			for id := range named.All() {
				v := x.valueOf(q.Key, id)
				v.homed.Put(s.id)
				s.byValue = append(s.byValue, v)
			}
			continue
		case i == home:
			l.homed.Put(s.id)
			s.presentLabel = l
		case !q.AdmitsAbsent():
			l.requiring.Put(s.id)
			x.required[l] = true
		}
		if only {
			l.only.Put(s.id)
		}
		for id := range named.All() {
			x.valueOf(q.Key, id).naming.Put(s.id)
		}
	}
}

// removeSelector undoes addSelector.
func (x *podLabelIndex) removeSelector(s *PodSelector) {
	home := homeOf(s.labels)
	for i, q := range s.labels {
		l := x.label(q.Key)
		named, only := q.Named()
		atHome := i == home && only
		switch {
		case atHome:
		case i == home:
			l.homed.Drop(s.id)
		case !q.AdmitsAbsent():
			if l.requiring.Drop(s.id); l.requiring.Empty() {
				delete(x.required, l)
			}
		}
		if only && !atHome {
			l.only.Drop(s.id)
		}
		for id := range named.All() {
			v := x.valueOf(q.Key, id)
			if atHome {
				v.homed.Drop(s.id)
			} else {
				v.naming.Drop(s.id)
			}
			x.dropIfUnused(v)
		}
		x.dropLabelIfUnused(l)
	}
}

// homeOf is the requirement that leads from a class to the selector: one with few values, else
// one that some label is present; -1 when there is none.
func homeOf(labels constraint.Set) int {
	home, fewest := -1, 0
	for i, q := range labels {
		if q.AdmitsAbsent() {
			continue
		}
		named, only := q.Named()
		n := named.Len()
		switch {
		case only && (fewest == 0 || n < fewest):
			home, fewest = i, n
		case home < 0:
			home = i
		}
	}
	return home
}
