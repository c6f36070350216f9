package provision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/reason"
)

// ownRequirements is how a market words a cut that no pod had a part in.
const ownRequirements = "the pool's own requirements"

// phrase adds the words that runbooks for Karpenter search for; empty while
// something is left. They are upstream's failure texts; the pool's name, which
// upstream leaves out of most, stands before them.
func phrase(f reason.Funnel) string {
	last, ok := f.Last()
	if !ok || f.Blocked != "" || f.Left() > 0 {
		return ""
	}
	switch last.By {
	case reason.Requirements, reason.Resources, reason.Availability, reason.Quota:
		return shortage(f, last)
	case reason.Taints:
		return "did not tolerate taint" + parenthesis("taint", fact(last, "taint"))
	case reason.Volumes:
		return "incompatible volume requirements"
	case reason.Topology:
		return topology(last)
	case reason.MinValues:
		return "pod didn’t schedule because NodePool couldn’t meet minValues requirements" + parenthesis("NodePool", f.Pool)
	case reason.Limits:
		return limits(last) + parenthesis("NodePool", f.Pool)
	}
	return ""
}

func parenthesis(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" (%s=%s)", name, value)
}

// shortage is about the three criteria that an instance type has to meet. One of
// them that leaves nothing by itself is named alone; else the text says which had
// been met before the last one failed.
func shortage(f reason.Funnel, last reason.Cut) string {
	by := func(r reason.Reason) bool {
		return slices.ContainsFunc(f.Cuts, func(c reason.Cut) bool { return c.By == r && c.Detail != ownRequirements })
	}
	switch {
	case last.By == reason.Requirements && last.Detail == ownRequirements:
		return "nodepool requirements filtered out all available instance types"
	case last.By == reason.Requirements:
		return "no instance type met all requirements"
	case last.By == reason.Resources && by(reason.Requirements):
		return "no instance type which met the scheduling requirements and the required offering had the required resources"
	case last.By == reason.Resources:
		return "no instance type has enough resources"
	case by(reason.Requirements) || by(reason.Resources):
		return "no instance type which met the scheduling requirements and had enough resources, had a required offering"
	}
	return "no instance type has the required offering"
}

// topology names what the constraint was decided by as far as the facts say.
func topology(last reason.Cut) string {
	kind, key := fact(last, "type"), fact(last, "key")
	if kind == "" {
		kind = "topology"
	}
	rest := slices.DeleteFunc(slices.Clone(last.Facts), func(f reason.Fact) bool { return f.Name == "type" || f.Name == "key" })
	text := "unsatisfiable topology constraint for " + kind
	if key != "" {
		text += ", key=" + key
	}
	if len(rest) > 0 {
		text += " (" + facts(rest, " = ") + ")"
	}
	return text
}

func limits(last reason.Cut) string {
	if fact(last, "limit") == "nodes" || strings.HasPrefix(last.Detail, "limits.nodes") {
		return "node limits have been exhausted for nodepool"
	}
	return "all available instance types exceed limits for nodepool"
}

// fact is the value of one parameter; empty when the cut does not have it.
func fact(c reason.Cut, name string) string {
	for _, f := range c.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// barren is what to tell a pool whose own requirements, or whose minValues, leave
// nothing to buy for anybody; empty for all others.
func barren(f reason.Funnel) string {
	const text = "NodePool requirements filtered out all compatible available instance types"
	last, ok := f.Last()
	switch {
	case !ok || f.Left() > 0 || f.Blocked != "":
		return ""
	case last.By == reason.Requirements && last.Detail == ownRequirements:
		return text
	case last.By == reason.MinValues:
		return text + " due to minValues incompatibility"
	}
	return ""
}
