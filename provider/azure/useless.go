package azure

import (
	"log/slog"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider"
)

var _ provider.Blamed = (*Provider)(nil)

// Useless has the size rest for an hour, for that class: what its machine lacks (mostly a driver that its
// image does not bring up) the next one would lack in any zone, while another size may do.
func (p *Provider) Useless(class string, c offer.Choice, lacks string) {
	s := p.skus.read().value.byName[c.Type]
	if s == nil {
		return
	}
	p.stockouts.learn(refusal{kind: useless, code: "ResourceNotRegistered", detail: shorten(lacks)}, s, c.Zone, c.CapacityType, buyer{class: class})
	p.opts.Log.Warn("machine joined without what it was bought for", slog.String("size", c.Type), slog.String("zone", c.Zone), slog.String("lacks", lacks))
}
