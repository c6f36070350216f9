// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// largestData bounds the data attached to one event, in bytes: otherwise a cluster of a hundred
// pools would fill etcd with explanations.
const largestData = 8 << 10

// silent reports whether the pod opted out of provisioning: it gets no event.
func silent(r reason.Reason) bool { return r == reason.OptedOut }

// Explain describes in one line why no node can run a group of pods: how many pools were tried,
// and for each pool which filter removed the last candidate, with counts.
func Explain(u schedule.Unplaced) string {
	if len(u.Funnels) == 0 {
		return plainly(u)
	}
	pools := make([]string, 0, len(u.Funnels))
	for _, f := range u.Funnels {
		pools = append(pools, explainPool(f))
	}
	text := fmt.Sprintf("0/%d nodepools can host it: %s", len(u.Funnels), strings.Join(pools, "; "))
	if u.Detail != "" {
		text += " (" + u.Detail + ")"
	}
	if allStatic(u.Funnels) {
		text += ": no dynamic nodepools found"
	}
	return text
}

// allStatic reports whether every pool has a fixed number of nodes: upstream has a message for
// such a cluster.
func allStatic(fs []reason.Funnel) bool {
	return !slices.ContainsFunc(fs, func(f reason.Funnel) bool { return f.Blocked != reason.Static })
}

func plainly(u schedule.Unplaced) string {
	switch {
	case u.Because == reason.NoNodePools:
		return "no dynamic nodepools found: create a NodePool"
	case u.Because == reason.Volumes:
		return "incompatible volume requirements, " + u.Detail
	case u.Detail == "":
		return string(u.Because)
	}
	return fmt.Sprintf("%s: %s", u.Because, u.Detail)
}

// explainPool renders a funnel: pool "web": 5,012 offerings → 300 after Requirements
// → 0 after Resources (largest has 30.2 CPU free): no instance type has enough resources.
func explainPool(f reason.Funnel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %q: ", f.Pool)
	if f.Blocked != "" {
		fmt.Fprintf(&b, "%s", f.Blocked)
		if f.Detail != "" {
			fmt.Fprintf(&b, " (%s)", f.Detail)
		}
		return b.String()
	}
	left := f.Offerings
	fmt.Fprintf(&b, "%s offerings", thousands(left))
	for i, cut := range f.Cuts {
		left -= cut.Removed
		fmt.Fprintf(&b, " → %s after %s", thousands(left), filter(cut))
		if words := parameters(cut); words != "" && (i == len(f.Cuts)-1 || left == 0) {
			fmt.Fprintf(&b, " (%s)", words)
		}
	}
	if p := phrase(f); p != "" {
		b.WriteString(": ")
		b.WriteString(p)
	}
	return b.String()
}

// filter names a cut. What the pool's own requirements remove is named apart from what the pods'
// requirements remove.
func filter(cut reason.Cut) string {
	if cut.Detail == ownRequirements {
		return "its own " + string(cut.By)
	}
	return string(cut.By)
}

// parameters returns the values that decided a cut: its detail, else its facts. It is empty where
// Karpenter's phrase contains them all.
func parameters(cut reason.Cut) string {
	switch {
	case cut.By == reason.Taints && cut.Facts.Get("taint") != nil, cut.By == reason.Topology && cut.Facts.Get("counts") != nil, cut.Detail == ownRequirements:
		return ""
	case cut.Facts.Get("unknown") != nil:
		return cut.Facts.Text("requirement")
	case cut.Detail != "":
		return cut.Detail
	}
	parts := make([]string, 0, len(cut.Facts))
	for _, f := range cut.Facts {
		parts = append(parts, f.Name+"="+f.Text())
	}
	return strings.Join(parts, ", ")
}

// funnelData is the JSON of the funnels; empty when there are none, or when it is too large for
// an event.
func funnelData(fs []reason.Funnel) string {
	if len(fs) == 0 {
		return ""
	}
	return bounded(fs)
}

func factData(fs reason.Facts) string {
	if len(fs) == 0 {
		return ""
	}
	return bounded(fs)
}

func bounded(value any) string {
	data, err := json.Marshal(value) // strings and numbers: it cannot fail
	if err != nil || len(data) > largestData {
		return ""
	}
	return string(data)
}

// eventKey is the event's key: an event with another key is published on the same pod at once. It
// has the filters, not the counts.
func eventKey(u schedule.Unplaced) string {
	parts := []string{string(u.Because)}
	for _, f := range u.Funnels {
		last, _ := f.Last()
		parts = append(parts, f.Pool, string(f.Blocked), string(last.By))
	}
	return strings.Join(parts, "/")
}

// thousands groups digits: 5012 becomes 5,012.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
