package scenario

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/karve-dev/karve/local"
)

// purchase is a group of claims for the same thing.
type purchase struct {
	Pool, Type, CapacityType string
	Acceptable               int
	Claims                   []local.Claim
}

// purchases groups claims by what they bought, pools in order.
func purchases(claims []local.Claim) []purchase {
	var groups []purchase
	for _, c := range claims {
		i := slices.IndexFunc(groups, func(g purchase) bool {
			return g.Pool == c.Pool && g.Type == c.Type && g.CapacityType == c.CapacityType && g.Acceptable == c.Acceptable
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, purchase{Pool: c.Pool, Type: c.Type, CapacityType: c.CapacityType, Acceptable: c.Acceptable})
		}
		groups[i].Claims = append(groups[i].Claims, c)
	}
	slices.SortFunc(groups, func(a, b purchase) int {
		return strings.Compare(a.Pool+a.CapacityType+a.Type, b.Pool+b.CapacityType+b.Type)
	})
	return groups
}

// decisionTable says what was bought and what else would have done.
func decisionTable(claims []local.Claim, prices priceList) string {
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "BOUGHT\tSIZE\tSHAPE\tCAPACITY\tPOOL\t$/H EACH\tCHOSEN FROM")
		for _, p := range purchases(claims) {
			fmt.Fprintf(w, "%d ×\t%s\t%s\t%s\t%s\t%.4f\t%d sizes, cheapest first\n",
				len(p.Claims), p.Type, prices.shape(p.Type), p.CapacityType, p.Pool, prices.hourly(p.Claims[0]), p.Acceptable)
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
	w.Flush() // into memory: it cannot fail
	return text.String()
}
