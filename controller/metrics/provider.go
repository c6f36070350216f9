// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/karve-dev/karve/provider"
)

// Decorate returns p with every call timed and every failure counted under the
// controller's name.
func (s *Set) Decorate(p provider.Provider, controller string) provider.Provider {
	return decorated{p, s, controller}
}

type decorated struct {
	provider.Provider
	set        *Set
	controller string
}

func (d decorated) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	start := time.Now()
	i, err := d.Provider.Launch(ctx, claim)
	d.record("Create", start, err)
	for _, a := range i.Refused {
		d.set.LaunchRefusals.WithLabelValues(claim.Pool, a.Reason).Inc()
	}
	return i, err
}

func (d decorated) Get(ctx context.Context, id string) (provider.Instance, error) {
	start := time.Now()
	i, err := d.Provider.Get(ctx, id)
	d.record("Get", start, err)
	return i, err
}

func (d decorated) List(ctx context.Context) ([]provider.Instance, error) {
	start := time.Now()
	all, err := d.Provider.List(ctx)
	d.record("List", start, err)
	return all, err
}

func (d decorated) Terminate(ctx context.Context, id string) error {
	start := time.Now()
	err := d.Provider.Terminate(ctx, id)
	d.record("Delete", start, err)
	return err
}

func (d decorated) TerminateByClaim(ctx context.Context, claim provider.Claim) error {
	start := time.Now()
	err := d.Provider.TerminateByClaim(ctx, claim)
	d.record("Delete", start, err)
	return err
}

func (d decorated) record(method string, since time.Time, err error) {
	d.set.CloudDuration.WithLabelValues(d.controller, method, d.Name()).Observe(time.Since(since).Seconds())
	if err != nil {
		d.set.CloudErrors.WithLabelValues(d.controller, method, d.Name(), kind(err)).Inc()
	}
}

// kind names an error as Karpenter's dashboards do; the name of an unknown error is empty.
func kind(err error) string {
	var capacity *provider.CapacityError
	var notReady *provider.NotReadyError
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return "NodeClaimNotFoundError"
	case errors.As(err, &capacity):
		return "InsufficientCapacityError"
	case errors.As(err, &notReady):
		return "NodeClassNotReadyError"
	}
	return ""
}
