// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/karve-dev/karve/local"
)

// launchGroup is a group of nodes decided on for the same reason.
type launchGroup struct {
	decision // of one of them
	Machines int
	Pods     int // of all
}

// launchGroups groups decisions by offering and reason, in a fixed order.
func launchGroups(decisions map[string]decision) []launchGroup {
	var groups []launchGroup
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		d := decisions[name]
		i := slices.IndexFunc(groups, func(g launchGroup) bool {
			return g.Pool == d.Pool && g.Type == d.Type && g.CapacityType == d.CapacityType && g.why() == d.why()
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, launchGroup{decision: d})
		}
		groups[i].Machines++
		groups[i].Pods += d.Pods
	}
	slices.SortStableFunc(groups, func(a, b launchGroup) int {
		return strings.Compare(a.Pool+a.CapacityType+a.Type, b.Pool+b.CapacityType+b.Type)
	})
	return groups
}

// decisionTable lists the nodes to launch, for how many pods, and why.
func decisionTable(decisions map[string]decision, prices priceList) string {
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "\tSIZE\tSHAPE\tCAPACITY\tPOOL\tFOR\t$/H EACH\tVM ALONE\tWHY")
		for _, p := range launchGroups(decisions) {
			fmt.Fprintf(w, "%d ×\t%s\t%s\t%s\t%s\t%s\t%.4f\t%.4f\t%s\n",
				p.Machines, p.Type, prices.shape(p.Type), p.CapacityType, p.Pool, counted(p.Pods, "pod"), p.Price, p.ListPrice, p.why())
		}
	})
}

// nodeTable is the bill: every node with its pods and its price.
func nodeTable(s state, prices priceList) string {
	claims := slices.Clone(s.Claims)
	slices.SortFunc(claims, func(a, b local.Claim) int {
		return strings.Compare(a.Pool+a.CapacityType+a.Name, b.Pool+b.CapacityType+b.Name)
	})
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "NODE\tPOOL\tSIZE\tSHAPE\tZONE\tCAPACITY\tPODS\t$/H\tVM ALONE")
		for _, c := range claims {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.4f\t%.4f\n",
				c.Node, c.Pool, c.Type, prices.shape(c.Type), c.Zone, c.CapacityType, s.on(c.Node), prices.hourly(c), prices.listed(c))
		}
		fmt.Fprintf(w, "%d nodes\t\t\t\t\t\t%d\t%.4f\t%.4f\n", len(claims), s.pods(""), prices.total(claims), prices.totalListed(claims))
	})
}

// columns aligns the tab-separated output of write.
func columns(write func(*tabwriter.Writer)) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush() // into memory: it cannot fail
	return text.String()
}

// counted returns "1 pod" or "3 pods".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
