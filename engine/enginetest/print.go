// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// Print writes a plan for people and for diffs.
func Print(p schedule.Plan) string {
	var w strings.Builder
	for _, n := range p.Nominations {
		fmt.Fprintf(&w, "on %s: %s\n", n.Node, names(n.Pods))
	}
	for _, l := range p.Launches {
		if len(l.Offerings) == 0 {
			fmt.Fprintf(&w, "launch %s for %s: no choices\n", names(l.Pods), l.Pool)
			continue
		}
		c := l.Offerings[0]
		fmt.Fprintf(&w, "launch %s for %s: %s in %s, %s, %s/h", names(l.Pods), l.Pool, c.Type, c.Zone, c.CapacityType, c.Price)
		if i := slices.IndexFunc(l.Offerings, func(o offering.Ref) bool { return o.Type != c.Type }); i >= 0 {
			next := l.Offerings[i]
			fmt.Fprintf(&w, " (%d choices; next %s at %s)", len(l.Offerings), next.Type, next.Price)
		}
		if len(l.Relaxed) > 0 {
			fmt.Fprintf(&w, " (with fewer values of %s)", strings.Join(l.Relaxed, ", "))
		}
		fmt.Fprintln(&w)
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&w, "unplaced %s: %s", names(u.Pods), u.Because)
		if u.Detail != "" {
			fmt.Fprintf(&w, ": %s", u.Detail)
		}
		fmt.Fprintln(&w)
		for _, f := range u.Funnels {
			fmt.Fprintf(&w, "  %s\n", funnel(f))
		}
	}
	for _, c := range p.CutShort {
		fmt.Fprintf(&w, "cut short: %s, %d not examined\n", c.Search, c.Unexamined)
	}
	if p.Preferences.Asked > 0 {
		fmt.Fprintf(&w, "preferences: %d of %d honoured, for %s/h\n", p.Preferences.Honoured, p.Preferences.Asked, p.Preferences.Cost)
	}
	if len(p.Launches) > 0 && !slices.ContainsFunc(p.Launches, func(l schedule.Launch) bool { return len(l.Offerings) == 0 }) {
		fmt.Fprintf(&w, "total %s/h%s, at least %s/h\n", p.Price(), listPrice(p), p.LowerBound)
	}
	return w.String()
}

// listPrice says what the instances cost without their extras, if they have any.
func listPrice(p schedule.Plan) string {
	if p.ListPrice() == p.Price() {
		return ""
	}
	return fmt.Sprintf(" (%s/h for the instances)", p.ListPrice())
}

func funnel(f reason.Funnel) string {
	if f.Blocked != "" {
		return fmt.Sprintf("%s: %s: %s", f.Pool, f.Blocked, f.Detail)
	}
	out := fmt.Sprintf("%s: %d offerings", f.Pool, f.Offerings)
	left := f.Offerings
	for _, c := range f.Cuts {
		left -= c.Removed
		out += fmt.Sprintf(" → %d after %s (%s)", left, c.By, c.Detail)
	}
	return out
}

// names lists pods; runs of one workload are written as first..last.
func names(pods []cluster.PodRef) string {
	if len(pods) == 0 {
		return "nothing"
	}
	var parts []string
	for i := 0; i < len(pods); {
		j := i + 1
		for j < len(pods) && workload(pods[j]) == workload(pods[i]) {
			j++
		}
		if j == i+1 {
			parts = append(parts, pods[i].Name)
		} else {
			parts = append(parts, fmt.Sprintf("%s..%s", pods[i].Name, strings.TrimPrefix(pods[j-1].Name, workload(pods[i])+"-")))
		}
		i = j
	}
	return strings.Join(parts, " ")
}

// workload is the name without its number; a name without one is its own workload.
func workload(r cluster.PodRef) string {
	if i := strings.LastIndexByte(r.Name, '-'); i > 0 {
		return r.Name[:i]
	}
	return r.Name
}

// PrintReasons writes the reasons of a plan: every fact of every cut, and the runners-up of every
// launch.
func PrintReasons(p schedule.Plan) string {
	var w strings.Builder
	for _, l := range p.Launches {
		c := l.Offerings[0]
		fmt.Fprintf(&w, "launch %s for %s: %s in %s, %s, %s/h\n", names(l.Pods), l.Pool, c.Type, c.Zone, c.CapacityType, c.Price)
		for _, r := range l.RunnersUp {
			fmt.Fprintf(&w, "  rather than %s in %s, %s, for %s at %+.4f/h: %s: %s\n", r.Type, r.Zone, r.CapacityType, r.Pool, r.More.USD(), r.Because, r.Why)
			printFacts(&w, "    ", r.Facts)
		}
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&w, "unplaced %s: %s", names(u.Pods), u.Because)
		if u.Detail != "" {
			fmt.Fprintf(&w, ": %s", u.Detail)
		}
		fmt.Fprintln(&w)
		printFacts(&w, "  ", u.Facts)
		for _, f := range u.Funnels {
			printFunnel(&w, f)
		}
	}
	return w.String()
}

func printFunnel(w *strings.Builder, f reason.Funnel) {
	if f.Blocked != "" {
		fmt.Fprintf(w, "  %s: %s: %s\n", f.Pool, f.Blocked, f.Detail)
		printFacts(w, "    ", f.Facts)
		return
	}
	fmt.Fprintf(w, "  %s: %d offerings\n", f.Pool, f.Offerings)
	for _, c := range f.Cuts {
		fmt.Fprintf(w, "    −%d %s: %s\n", c.Removed, c.By, c.Detail)
		printFacts(w, "      ", c.Facts)
	}
}

func printFacts(w *strings.Builder, indent string, fs reason.Facts) {
	for _, f := range fs {
		fmt.Fprintf(w, "%s%s = %s\n", indent, f.Name, f.Text())
	}
}
