// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"slices"
	"time"
)

// Violation is a promise that was broken.
type Violation struct {
	Invariant string    // its id in docs/audit.md, such as S5
	Object    string    // kind and name, such as nodepool/default or pod/web/front-1
	Since     time.Time // when it began, as far as can be seen
	Message   string    // for a person: what happened, and what should have
}

// String is the violation in one line.
func (v Violation) String() string {
	return v.Invariant + " " + v.Object + " since " + v.Since.UTC().Format(time.RFC3339) + ": " + v.Message
}

// Invariants are the ids of those that an Auditor judges, in order.
func Invariants() []string {
	return []string{
		"S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "S12", "S13", "S14", "S16", "S21", "S23", "S25", "S27",
		"L1", "L2", "L3", "L4", "L5", "L6", "L7",
	}
}

// mostKept bounds how many violations are kept to be listed; counts include all.
const mostKept = 10_000

// findings are the violations found, oldest first.
type findings struct {
	all    []Violation
	told   int // how many of all were returned by Check
	counts map[string]int
}

func (f *findings) add(v Violation) {
	f.all = append(f.all, v)
	f.counts[v.Invariant]++
	if len(f.all) > mostKept && f.told > 0 { // what was returned already is forgotten first
		f.all, f.told = slices.Delete(f.all, 0, 1), f.told-1
	}
}

// untold returns the violations that were not returned before.
func (f *findings) untold() []Violation {
	out := slices.Clone(f.all[f.told:])
	f.told = len(f.all)
	return out
}

// overdue is what may not last: since when it has been so, by object. Each time that it lasts too
// long counts once.
type overdue struct {
	since map[string]time.Time
	found map[string]bool
}

func newOverdue() overdue {
	return overdue{since: map[string]time.Time{}, found: map[string]bool{}}
}

// set records whether it is so now. What was so before has been so since then.
func (o *overdue) set(object string, now time.Time, is bool) {
	if !is {
		delete(o.since, object)
		delete(o.found, object)
		return
	}
	if _, known := o.since[object]; !known {
		o.since[object] = now
	}
}

// restart lets the time begin anew.
func (o *overdue) restart(object string, now time.Time) {
	o.set(object, now, false)
	o.set(object, now, true)
}

// late returns the objects for which it has lasted longer than the bound, each once, in order.
func (o *overdue) late(now time.Time, bound time.Duration) []string {
	var out []string
	for object, since := range o.since {
		if !o.found[object] && now.Sub(since) > bound {
			out = append(out, object)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(o.since[a].Compare(o.since[b]), cmp.Compare(a, b))
	})
	for _, object := range out {
		o.found[object] = true
	}
	return out
}

// disturb lets the time of everything that has not been found begin at that time or later.
func (o *overdue) disturb(now time.Time) {
	for object := range o.since {
		o.since[object] = now
	}
}
