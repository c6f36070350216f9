// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/karve-dev/karve/provider"
)

// Observe returns p with every call timed and every failure counted under the
// controller's name.
func (s *Set) Observe(p provider.Provider, controller string) provider.Provider {
	return observed{p, s, controller}
}

type observed struct {
	provider.Provider
	set        *Set
	controller string
}

func (o observed) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	start := time.Now()
	i, err := o.Provider.Launch(ctx, claim)
	o.record("Create", start, err)
	for _, a := range i.Refused {
		o.set.LaunchRefusals.WithLabelValues(claim.Pool, a.Reason).Inc()
	}
	return i, err
}

func (o observed) Get(ctx context.Context, id string) (provider.Instance, error) {
	start := time.Now()
	i, err := o.Provider.Get(ctx, id)
	o.record("Get", start, err)
	return i, err
}

func (o observed) List(ctx context.Context) ([]provider.Instance, error) {
	start := time.Now()
	all, err := o.Provider.List(ctx)
	o.record("List", start, err)
	return all, err
}

func (o observed) Terminate(ctx context.Context, id string) error {
	start := time.Now()
	err := o.Provider.Terminate(ctx, id)
	o.record("Delete", start, err)
	return err
}

func (o observed) TerminateByClaim(ctx context.Context, claim provider.Claim) error {
	start := time.Now()
	err := o.Provider.TerminateByClaim(ctx, claim)
	o.record("Delete", start, err)
	return err
}

func (o observed) record(method string, since time.Time, err error) {
	o.set.CloudDuration.WithLabelValues(o.controller, method, o.Name()).Observe(time.Since(since).Seconds())
	if err != nil {
		o.set.CloudErrors.WithLabelValues(o.controller, method, o.Name(), kind(err)).Inc()
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
