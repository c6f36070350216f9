// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"log/slog"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

var _ provider.FailureObserver = (*Provider)(nil)

// NodeUnusable blocks the size for an hour, for that node class: what the node lacks (mostly
// because its image does not install a driver) the next one would lack in any zone, while
// another size may work. When sizes with GPUs of several models lack theirs, the size is not the
// cause, and all sizes with GPUs are blocked.
func (p *Provider) NodeUnusable(class string, c offering.Ref, lacks string) {
	sizes := p.catalogs.sizes()
	s := sizes[c.Type]
	if s == nil {
		return
	}
	r := armerr.Refusal{Kind: armerr.WithoutResource, Code: stock.NotRegistered, Detail: armerr.Shorten(lacks)}
	p.stockouts.Learn(r, s, c.Zone, c.CapacityType, stock.Requester{Class: class})
	p.opts.Log.Warn("VM joined without its GPUs", slog.String("size", c.Type), slog.String("zone", c.Zone), slog.String("lacks", lacks))
	if s.GPUs == 0 || !p.stockouts.GPUsMissing(class, sizes) {
		return
	}
	r.Advice = "VMs of several GPU models joined without GPUs: check that the cluster has a device plugin for them, and that it runs on the class's nodes"
	for _, other := range sizes {
		if other.GPUs > 0 {
			p.stockouts.Learn(r, other, c.Zone, c.CapacityType, stock.Requester{Class: class})
		}
	}
	p.opts.Log.Warn("VMs of several GPU models joined without their GPUs: sizes with GPUs are not launched for now", slog.String("class", class), slog.String("lacks", lacks))
}

var _ provider.EvictionObserver = (*Provider)(nil)

// EvictionAnnounced puts the offering last for ten minutes.
func (p *Provider) EvictionAnnounced(c offering.Ref) {
	if c.CapacityType == offering.Spot {
		p.evictions.Learn(c)
	}
}
