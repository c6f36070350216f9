// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/offering"
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

// A claim's conditions give the reason why its launch was refused, also before it is deleted.
//
// Rule LAUNCH-8.
func TestClaimSaysWhyItsLaunchFailed(t *testing.T) {
	for want, because := range map[string]error{
		"SKUNotAvailable":           &provider.CapacityError{Claim: "c", Reason: "SKUNotAvailable"},
		"InsufficientCapacity":      &provider.CapacityError{Claim: "c"},
		"NodeClassNotReady":         &provider.NotReadyError{Class: "c", Reason: "r"},
		"NodeClassReadinessUnknown": &provider.NotReadyError{Class: "c", Reason: "r", Unsettled: true},
		"CreateInstanceFailed":      &provider.LaunchError{Reason: "CreateInstanceFailed", Err: errors.New("403")},
		"LaunchFailed":              errors.New("no word for it"),
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

// refusing is a provider that refuses every launch.
type refusing struct{ provider.Provider }

func (refusing) Launch(context.Context, provider.Claim) (provider.Instance, error) {
	return provider.Instance{Name: "m", State: provider.Creating, RetryAfter: time.Second,
		Refused: []provider.RefusedOffering{{Offering: offering.Ref{Type: "small"}, Code: "InvalidResourceReference", Detail: "the group is not there"}}}, nil
}

// While a launch is refused and retried, its claim has the cloud's last answer.
//
// Rule REFUSAL-5.
func TestClaimSaysWhyItsInstanceIsLaunchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Lifecycle.Provider = refusing{e.Provider}
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("web", "1", "1Gi"))
		e.Until(8, "the cloud's words", func() bool {
			return len(e.Claims()) == 1 && strings.Contains(e.Claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched).Message,
				"small was refused with InvalidResourceReference: the group is not there")
		})
	})
}
