package disrupt

import (
	"fmt"

	"github.com/karve-dev/karve/engine/schedule"
)

// exhausted says that something would be launched in a resting pool: launches for other moves
// failed there recently.
func (s *search) exhausted(launches []schedule.Launch) Kept {
	for i := range launches {
		if p := s.pools[launches[i].Pool]; p != nil && s.c.Now.Before(p.Resting) {
			return Kept{Because: Resting, Until: p.Resting, Detail: fmt.Sprintf(
				"What takes its place would be bought in NodePool %q, where moves failed; it is tried again later", p.Name)}
		}
	}
	return Kept{}
}
