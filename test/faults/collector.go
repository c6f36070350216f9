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
	grace        = time.Minute // of a machine without a claim
	few, many    = 3, 10
	convincing   = 10 * time.Minute
)

// A collector compares claims and machines, as garbage collection does.
type collector struct {
	tidied, doubted time.Time
}

func (t *town) collect(ctx context.Context) {
	for scarcity.Sleep(ctx, collectEvery) == nil {
		machines, err := t.market.provider.List(ctx)
		if err != nil {
			continue
		}
		claims := t.snapshot()
		if missing, known := absent(claims, machines); t.believes(ctx, missing, known) {
			t.loseGone(ctx, missing)
			t.endUnclaimed(ctx, claims, machines)
			t.tidy(ctx, claims)
		}
	}
}

// snapshot is what the API would list.
func (t *town) snapshot() map[string]claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]claim, len(t.claims))
	for uid, c := range t.claims {
		all[uid] = *c
	}
	return all
}

// absent are claims with a node whose machine is not listed, of how many.
func absent(claims map[string]claim, machines []provider.Instance) (missing []claim, known int) {
	listed := make(map[string]bool, len(machines))
	for _, m := range machines {
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

// believes decides whether a list may be acted on.
func (t *town) believes(ctx context.Context, missing []claim, known int) bool {
	if n := len(missing); n <= max(few, known/many) && (n < known || known <= 1) {
		t.collector.doubted = time.Time{}
		return true
	}
	if t.collector.doubted.IsZero() {
		t.collector.doubted = time.Now()
	}
	return time.Since(t.collector.doubted) >= convincing &&
		!slices.ContainsFunc(missing, func(c claim) bool { return !t.gone(ctx, c) })
}

func (t *town) gone(ctx context.Context, c claim) bool {
	_, err := t.market.provider.Get(ctx, c.id)
	return errors.Is(err, provider.ErrNotFound)
}

// loseGone has claims end whose machine is gone for certain.
func (t *town) loseGone(ctx context.Context, missing []claim) {
	for _, c := range missing {
		if !c.node && t.gone(ctx, c) {
			t.mu.Lock()
			now := t.claims[c.UID]
			t.mu.Unlock()
			if now != nil {
				t.lose(now)
			}
		}
	}
}

// endUnclaimed gives back machines that belong to no claim. What fails does so again later.
func (t *town) endUnclaimed(ctx context.Context, claims map[string]claim, machines []provider.Instance) {
	for _, m := range machines {
		_, claimed := claims[m.ClaimUID]
		if claimed || m.State == provider.Terminating || time.Since(m.Created) < grace || t.exists(m.ClaimUID) {
			continue
		}
		_ = t.market.provider.Terminate(ctx, m.ProviderID)
	}
}

func (t *town) exists(uid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims[uid] != nil
}

// tidy gives back what machines left behind. What fails does so again later.
func (t *town) tidy(ctx context.Context, claims map[string]claim) {
	if time.Since(t.collector.tidied) < tidyEvery {
		return
	}
	t.collector.tidied = time.Now()
	names := map[string]bool{}
	for c := range maps.Values(claims) {
		names[c.Name] = true
	}
	_, _ = t.market.provider.CollectOrphans(ctx, func(name, uid string) bool {
		_, lives := claims[uid]
		return lives || uid == "" && names[name]
	})
}
