// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// ownRequirements is the detail of a cut that the pool's own requirements cause, whatever the
// pods ask.
const ownRequirements = cluster.PoolRequirements

// phrase returns the failure texts of upstream, which runbooks for Karpenter search for; empty
// while offerings are left. The pool's name, which upstream leaves out of most texts, precedes
// them.
func phrase(f reason.Funnel) string {
	last, ok := f.Last()
	if !ok || f.Blocked != "" || f.Left() > 0 {
		return ""
	}
	switch last.By {
	case reason.Requirements, reason.Resources, reason.Availability, reason.Quota, reason.Addresses:
		return shortage(f, last)
	case reason.Taints:
		return "did not tolerate taint" + parenthesis("taint", last.Facts.Text("taint"))
	case reason.Volumes:
		return "incompatible volume requirements"
	case reason.Ports:
		return "checking host port usage" + parenthesis("ports", last.Facts.Text("ports"))
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

// shortage is about the three criteria that an instance type has to meet. A criterion that
// removes everything by itself is named alone; otherwise the text says which criteria were met
// before the last one failed.
func shortage(f reason.Funnel, last reason.Cut) string {
	by := func(r reason.Reason) bool {
		return slices.ContainsFunc(f.Cuts, func(c reason.Cut) bool { return c.By == r && c.Detail != ownRequirements })
	}
	switch {
	case last.By == reason.Requirements && last.Detail == ownRequirements:
		return "nodepool requirements filtered out all available instance types"
	case last.Facts.Text("unknown") != "":
		return "incompatible requirements, " + unknown(last.Facts)
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

// unknown is about a label that no offering has, with the most similar known label.
func unknown(fs reason.Facts) string {
	text := fmt.Sprintf("label %q does not have known values", fs.Text("unknown"))
	if nearest := fs.Text("nearest"); nearest != "" {
		text += fmt.Sprintf(" (typo of %q?)", nearest)
	}
	return text
}

// topology names the parameters of the constraint as far as the facts have them.
func topology(last reason.Cut) string {
	kind := last.Facts.Text("type")
	if kind == "" {
		kind = "topology"
	}
	text := "unsatisfiable topology constraint for " + kind
	if key := last.Facts.Text("key"); key != "" {
		text += ", key=" + key
	}
	var rest []string
	for _, name := range []string{"counts", "podDomains", "nodeDomains", "maxSkew"} {
		if value := last.Facts.Text(name); value != "" {
			rest = append(rest, name+" = "+value)
		}
	}
	if len(rest) > 0 {
		text += " (" + strings.Join(rest, ", ") + ")"
	}
	return text
}

func limits(last reason.Cut) string {
	if last.Facts.Text("limit") == "nodes" || strings.HasPrefix(last.Detail, "limits.nodes") {
		return "node limits have been exhausted for nodepool"
	}
	return "all available instance types exceed limits for nodepool"
}

// noInstanceTypes is the message for a pool whose own requirements, or minValues, leave no instance
// type for any pod; empty for other pools.
func noInstanceTypes(f reason.Funnel) string {
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
