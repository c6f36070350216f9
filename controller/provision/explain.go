package provision

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/reason"
)

// silent reports whether the pod itself asked not to be provisioned for: it gets no event.
func silent(r reason.Reason) bool { return r == reason.OptedOut }

// Explain says in one line why nothing can host a group of pods: how many pools
// were asked, and for each which filter removed the last candidate, with counts.
func Explain(u pack.Unplaced) string {
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
	return text
}

func plainly(u pack.Unplaced) string {
	if u.Because == reason.NoPools {
		return "no dynamic nodepools found: create a NodePool"
	}
	if u.Detail == "" {
		return string(u.Because)
	}
	return fmt.Sprintf("%s: %s", u.Because, u.Detail)
}

// explainPool renders a funnel: pool "web": 5,012 offers → 300 after Requirements
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
	left := f.Offers
	fmt.Fprintf(&b, "%s offers", thousands(left))
	for i, cut := range f.Cuts {
		left -= cut.Removed
		fmt.Fprintf(&b, " → %s after %s", thousands(left), cut.By)
		if cut.Detail != "" && (i == len(f.Cuts)-1 || left == 0) {
			fmt.Fprintf(&b, " (%s)", cut.Detail)
		}
	}
	if last, ok := f.Last(); ok && left == 0 {
		b.WriteString(phrase(last, f.Pool))
	}
	return b.String()
}

// phrase adds the words that runbooks for Karpenter search for.
func phrase(last reason.Cut, pool string) string {
	switch last.By {
	case reason.Requirements:
		return ": no instance type met all requirements"
	case reason.Taints:
		return ": did not tolerate taint"
	case reason.Resources:
		return ": no instance type has enough resources"
	case reason.Limits:
		return fmt.Sprintf(": all available instance types exceed limits for nodepool (NodePool=%s)", pool)
	case reason.Availability, reason.Quota:
		return ": no instance type has the required offering"
	}
	return ""
}

// gist is what must change for the same pod to be told again: the filters, not the counts.
func gist(u pack.Unplaced) string {
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
