// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"

	"github.com/karve-dev/karve/bench/plot"
)

// Picture draws what either side spends against how often it evicts: a panel for each scale, a
// line through the policies for each side.
func Picture(rows []Row) string {
	var panels []plot.Tradeoff
	for _, r := range rows {
		title := fmt.Sprintf("1/%d of the trace, %.0f hours", r.Scale, r.Hours)
		if len(panels) == 0 || panels[len(panels)-1].Title != title {
			panels = append(panels, plot.Tradeoff{
				Title: title, X: "evictions per pod and day", Y: "USD over the covering bound, %",
				Lines: []plot.Line{{Name: "karve"}, {Name: "upstream"}},
			})
		}
		lines := panels[len(panels)-1].Lines
		lines[0].Spots = append(lines[0].Spots, r.spot(r.Karve))
		if r.Upstream != nil {
			lines[1].Spots = append(lines[1].Spots, r.spot(*r.Upstream))
		}
	}
	return plot.Tradeoffs("What nodes cost, and how often pods move", "Trace: "+Source, panels...)
}

func (r Row) spot(f Figures) plot.Spot {
	return plot.Spot{Label: r.Policy, X: f.EvictionsPerPodDay, Y: 100 * (ratio(f.USD, r.BoundUSD) - 1)}
}
