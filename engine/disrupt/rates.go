package disrupt

import (
	"math"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// rates say what pods would cost at the best prices there are: no machines that hold them
// cost less.
type rates struct {
	w     *world.World
	units map[*world.Shape]*[quantity.Dims]float64
}

func newRates(w *world.World) *rates {
	return &rates{w, map[*world.Shape]*[quantity.Dims]float64{}}
}

// of is what the movable pods of a node are worth.
func (r *rates) of(h *world.Host) offer.Price {
	var byCPU, byMemory float64
	h.Movable(func(c *world.Class, pods []world.Ref) {
		unit := r.unit(c.Shape)
		byCPU += float64(c.Requests[quantity.CPU]*int64(len(pods))) * unit[quantity.CPU]
		byMemory += float64(c.Requests[quantity.Memory]*int64(len(pods))) * unit[quantity.Memory]
	})
	return offer.Price(math.Floor(max(byCPU, byMemory)))
}

// unit is what one unit of each resource costs at least, where the shape can go.
func (r *rates) unit(s *world.Shape) *[quantity.Dims]float64 {
	if u := r.units[s]; u != nil {
		return u
	}
	u := &[quantity.Dims]float64{}
	for _, m := range r.w.Markets {
		if m.Pool.Blocked != "" || m.Pool.Static {
			continue
		}
		for row := range m.Fit(s).All.All() {
			if m.Catalog.Rows[row].Unavailable != "" {
				continue
			}
			for _, d := range []quantity.Dim{quantity.CPU, quantity.Memory} {
				if room := m.Room[row][d]; room > 0 {
					price := float64(m.Catalog.Rows[row].Price) / float64(room)
					if u[d] == 0 || price < u[d] {
						u[d] = price
					}
				}
			}
		}
	}
	r.units[s] = u
	return u
}
