package azure_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/emulator"
)

// A size whose GPU the class's image has no driver for is passed over, and not offered to the
// class again for a while.
//
// Rule 59.
func TestSizeWithoutADriverIsPassedOver(t *testing.T) {
	const newer, older = "Standard_NC36ds_xl_RTXPRO6000BSE_v6", "Standard_D2s_v5"
	r := newRegion(t, emulator.Options{SystemNodes: -1, Location: "westus2", Quota: map[string]int{"StandardNCdsRTXPRO6000BSEv6XLFamily": 1000}}) // images of 2025
	r.options.Location = "westus2"
	p := r.provider(t)
	only := claim("train", onDemand(newer, "westus2-1"))
	var capacity *provider.CapacityError
	if _, err := p.Launch(t.Context(), only); !errors.As(err, &capacity) || len(capacity.Attempts) != 1 || capacity.Attempts[0].Code != "NoGPUDriver" ||
		!strings.Contains(capacity.Attempts[0].Detail, "use a newer image") {
		t.Errorf("a claim that accepts nothing else: %v, %+v", err, capacity)
	}
	both := claim("any", onDemand(newer, "westus2-1"), onDemand(older, "westus2-1"))
	if in, _ := run(t, p, both); in.Type != older {
		t.Errorf("bought %s", in.Type)
	}
	if o := find(snapshot(t, p), newer); o == nil || o.Offers[0].Unavailable == "" {
		t.Errorf("%s is offered to the class: %+v", newer, o)
	}
}
