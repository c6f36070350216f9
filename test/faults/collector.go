// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/test/scarcity"
)

// The collector's times and measures.
const (
	collectEvery = 30 * time.Second
	tidyEvery    = 5 * time.Minute
	grace        = time.Minute // of a VM without a claim
	few, many    = 3, 10
	convincing   = 10 * time.Minute
)

// A collector compares claims and VMs, as garbage collection does.
type collector struct {
	claims          *claims
	catalog         *catalog
	tidied, doubted time.Time
}

func (g *collector) run(ctx context.Context) {
	for scarcity.Sleep(ctx, collectEvery) == nil {
		vms, err := g.catalog.provider.List(ctx)
		if err != nil {
			continue
		}
		claims := g.claims.snapshot()
		if missing, known := absent(claims, vms); g.mayAct(ctx, missing, known) {
			g.loseGone(ctx, missing)
			g.endUnclaimed(ctx, claims, vms)
			g.deleteOrphans(ctx, claims)
		}
	}
}

// absent are claims with a node whose VM is not listed, of how many.
func absent(claims map[string]claim, vms []provider.Instance) (missing []claim, known int) {
	listed := make(map[string]bool, len(vms))
	for _, m := range vms {
		listed[strings.ToLower(m.ProviderID)] = true
	}
	for _, c := range claims {
		if !c.joined || c.lost {
			continue
		}
		if known++; !listed[strings.ToLower(c.id)] {
			missing = append(missing, c)
		}
	}
	return missing, known
}

// mayAct decides whether a list may be acted on.
func (g *collector) mayAct(ctx context.Context, missing []claim, known int) bool {
	if n := len(missing); n <= max(few, known/many) && (n < known || known <= 1) {
		g.doubted = time.Time{}
		return true
	}
	if g.doubted.IsZero() {
		g.doubted = time.Now()
	}
	return time.Since(g.doubted) >= convincing &&
		!slices.ContainsFunc(missing, func(c claim) bool { return !g.isGone(ctx, c) })
}

func (g *collector) isGone(ctx context.Context, c claim) bool {
	_, err := g.catalog.provider.Get(ctx, c.id)
	return errors.Is(err, provider.ErrNotFound)
}

// loseGone has claims end whose VM is gone for certain.
func (g *collector) loseGone(ctx context.Context, missing []claim) {
	for _, c := range missing {
		if !c.node && g.isGone(ctx, c) {
			g.claims.markUIDLost(c.UID)
		}
	}
}

// endUnclaimed terminates VMs that belong to no claim. What fails does so again later.
func (g *collector) endUnclaimed(ctx context.Context, claims map[string]claim, vms []provider.Instance) {
	for _, m := range vms {
		_, claimed := claims[m.ClaimUID]
		if claimed || m.State == provider.Terminating || time.Since(m.Created) < grace || g.claims.exists(m.ClaimUID) {
			continue
		}
		_ = g.catalog.provider.Terminate(ctx, m.ProviderID)
	}
}

// deleteOrphans deletes what VMs left behind. What fails does so again later.
func (g *collector) deleteOrphans(ctx context.Context, claims map[string]claim) {
	if time.Since(g.tidied) < tidyEvery {
		return
	}
	g.tidied = time.Now()
	names := map[string]bool{}
	for c := range maps.Values(claims) {
		names[c.Name] = true
	}
	_, _ = g.catalog.provider.CollectLeftovers(ctx, func(name, uid string) bool {
		_, lives := claims[uid]
		return lives || uid == "" && names[name]
	})
}
