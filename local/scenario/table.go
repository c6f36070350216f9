package scenario

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/karve-dev/karve/local"
)

// purchase is a group of machines bought for the same reason.
type purchase struct {
	Pool, Type, CapacityType string
	Why                      string
	Pods                     int
	Claims                   []local.Claim
}

// purchases groups claims by what they bought and why, pools in order.
func purchases(claims []local.Claim, decisions map[string]decision) []purchase {
	var groups []purchase
	for _, c := range claims {
		d := decisions[c.Name]
		i := slices.IndexFunc(groups, func(g purchase) bool {
			return g.Pool == c.Pool && g.Type == c.Type && g.CapacityType == c.CapacityType && g.Why == d.why()
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, purchase{Pool: c.Pool, Type: c.Type, CapacityType: c.CapacityType, Why: d.why()})
		}
		groups[i].Claims = append(groups[i].Claims, c)
		groups[i].Pods += d.Pods
	}
	slices.SortFunc(groups, func(a, b purchase) int {
		return strings.Compare(a.Pool+a.CapacityType+a.Type, b.Pool+b.CapacityType+b.Type)
	})
	return groups
}

// decisionTable says what was bought, for how many pods, and why.
func decisionTable(claims []local.Claim, decisions map[string]decision, prices priceList) string {
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "\tSIZE\tSHAPE\tCAPACITY\tPOOL\tFOR\t$/H EACH\tWHY")
		for _, p := range purchases(claims, decisions) {
			fmt.Fprintf(w, "%d ×\t%s\t%s\t%s\t%s\t%d pods\t%.4f\t%s\n",
				len(p.Claims), p.Type, prices.shape(p.Type), p.CapacityType, p.Pool, p.Pods, prices.hourly(p.Claims[0]), p.Why)
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
		fmt.Fprintln(w, "NODE\tPOOL\tSIZE\tSHAPE\tZONE\tCAPACITY\tPODS\t$/H")
		for _, c := range claims {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.4f\n",
				c.Node, c.Pool, c.Type, prices.shape(c.Type), c.Zone, c.CapacityType, s.on(c.Node), prices.hourly(c))
		}
		fmt.Fprintf(w, "%d nodes\t\t\t\t\t\t%d\t%.4f\n", len(claims), s.pods(""), prices.total(claims))
	})
}

// columns lines up what write prints with tabs between.
func columns(write func(*tabwriter.Writer)) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush() // into memory: it cannot fail
	return text.String()
}
