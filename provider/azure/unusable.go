package azure

import (
	"fmt"
	"log/slog"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

var _ provider.FailureObserver = (*Provider)(nil)

// notRegistered is the code for nodes that lack the resource they were launched for.
const notRegistered = "ResourceNotRegistered"

// NodeUnusable blocks the size for an hour, for that node class: what the node lacks (mostly
// because its image does not install a driver) the next one would lack in any zone, while
// another size may work. When sizes with GPUs of several models lack theirs, the size is not the
// cause, and all sizes with GPUs are blocked.
func (p *Provider) NodeUnusable(class string, c offering.Ref, lacks string) {
	sizes := p.skus.State().Value.ByName
	s := sizes[c.Type]
	if s == nil {
		return
	}
	r := armerr.Refusal{Kind: armerr.WithoutResource, Code: notRegistered, Detail: armerr.Shorten(lacks)}
	p.stockouts.learn(r, s, c.Zone, c.CapacityType, buyer{class: class})
	p.opts.Log.Warn("machine joined without what it was bought for", slog.String("size", c.Type), slog.String("zone", c.Zone), slog.String("lacks", lacks))
	if s.GPUs == 0 || !p.stockouts.pluginMissing(class, sizes) {
		return
	}
	r.Advice = "machines of several GPU models came without: check that the cluster has a device plugin for them, and that it runs on the class's nodes"
	for _, other := range sizes {
		if other.GPUs > 0 {
			p.stockouts.learn(r, other, c.Zone, c.CapacityType, buyer{class: class})
		}
	}
	p.opts.Log.Warn("machines of several GPU models joined without their GPUs: sizes with GPUs rest", slog.String("class", class), slog.String("lacks", lacks))
}

// pluginMissing reports whether nodes of three sizes of a node class, with GPUs of at least two
// models, lacked them within the last hour.
func (m *stockouts) pluginMissing(class string, known map[string]*sku.SKU) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes, models := map[string]bool{}, map[string]bool{}
	for key, b := range m.view() {
		if s := known[key.size]; key.class == class && b.code == notRegistered && s != nil && s.GPUs > 0 {
			sizes[key.size], models[fmt.Sprint(s.GPU)] = true, true
		}
	}
	return len(sizes) >= alikeSizes && len(models) > 1
}
