package provision

import (
	"fmt"

	"github.com/karve-dev/karve/engine/pack"
)

// preferences are the words of a decision's log line about what pods merely
// prefer; none when nobody prefers anything.
func preferences(p pack.Preferences) []any {
	if p.Asked == 0 {
		return nil
	}
	return []any{"preferences-asked", p.Asked, "preferences-honoured", p.Honoured, "preferences-cost", p.Cost.USD()}
}

// choice are the words of a launch's log line about what is bought first, and
// what would have been bought instead.
func choice(l pack.Launch) []any {
	first := l.Choices[0]
	words := []any{"instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD()}
	if len(l.RunnersUp) == 0 {
		return words
	}
	others := make([]string, 0, len(l.RunnersUp))
	for _, r := range l.RunnersUp {
		others = append(others, fmt.Sprintf("%s in %s (%s): +%s/h, %s", r.Type, r.Zone, r.CapacityType, r.More, r.Why))
	}
	return append(words, "runners-up", others)
}
