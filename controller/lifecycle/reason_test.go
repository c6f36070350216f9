package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// unwilling launches nothing.
type unwilling struct {
	provider.Provider
	because error
}

func (p unwilling) Launch(context.Context, provider.Claim) (provider.Instance, error) {
	return provider.Instance{}, p.because
}

// A claim says why its machine was refused, one that is given up too, before it goes.
//
// Rule 298.
func TestClaimSaysWhyItsLaunchFailed(t *testing.T) {
	for want, because := range map[string]error{
		"SKUNotAvailable":      &provider.CapacityError{Claim: "c", Reason: "SKUNotAvailable"},
		"InsufficientCapacity": &provider.CapacityError{Claim: "c"},
		"NodeClassNotReady":    &provider.NotReadyError{Class: "c", Reason: "r"},
		"CreateInstanceFailed": &provider.LaunchError{Reason: "CreateInstanceFailed", Err: errors.New("403")},
		"LaunchFailed":         errors.New("no word for it"),
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				e.Lifecycle.Provider = unwilling{e.Provider, because}
				e.Create(controllertest.Pool("web", "Never"))
				e.Create(controllertest.Pod("web", "1", "1Gi"))
				e.Until(8, "a claim with that reason", func() bool {
					for _, c := range e.Claims() {
						launched := c.StatusConditions().Get(karpv1.ConditionTypeLaunched)
						if launched.Reason == want && launched.Message != "" && launched.IsUnknown() {
							return true
						}
					}
					return false
				})
			})
		})
	}
}
