package provision

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// preferences returns the log values about the pods' preferences; none when no pod has any.
func preferences(p schedule.Preferences) []any {
	if p.Asked == 0 {
		return nil
	}
	return []any{"preferences-asked", p.Asked, "preferences-honoured", p.Honoured, "preferences-cost", p.Cost.USD()}
}

// choice returns the log values about the offering that is tried first, and those that would be
// tried instead.
func choice(l schedule.Launch) []any {
	first := l.Offerings[0]
	words := []any{"instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD()}
	if i := slices.IndexFunc(l.Offerings, func(c offering.Ref) bool { return c.Type != first.Type }); i >= 0 {
		words = append(words, "runner-up", l.Offerings[i].Type, "runner-up-price", l.Offerings[i].Price.USD())
	}
	if len(l.RunnersUp) == 0 {
		return words
	}
	others := make([]string, 0, len(l.RunnersUp))
	for _, r := range l.RunnersUp {
		others = append(others, fmt.Sprintf("%s in %s (%s): %+.4f/h, %s: %s", r.Type, r.Zone, r.CapacityType, r.More.USD(), r.Because, r.Why))
	}
	return append(words, "runners-up", others)
}
