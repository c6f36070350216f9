// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// classless has no catalog for a class that it does not find, like the Azure provider.
type classless struct {
	provider.Provider
	finds func(class string) bool
}

func (p classless) Catalog(ctx context.Context, class string) (*provider.Catalog, error) {
	if !p.finds(class) {
		return nil, &provider.NotReadyError{Class: class, Reason: provider.ClassNotFound, Detail: "there is no class of that name"}
	}
	return p.Provider.Catalog(ctx, class)
}

// claimOf is a stand-alone NodeClaim of a class.
func claimOf(class string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{}
	c.Name = "alone"
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: controllertest.NodeClassGVK().Group, Kind: controllertest.NodeClassGVK().Kind, Name: class}
	return c
}

// A claim whose node class does not exist is deleted in its first pass, and its condition gives
// the reason.
//
// Rule LAUNCH-9.
func TestClaimWithoutNodeClassEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		finds := func(class string) bool { return class == "default" }
		e.Lifecycle.Catalog = catalog.New(classless{e.Provider, finds}, e.Mirror, e.Metrics)
		e.Create(claimOf("missing"))
		e.Step()
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp == nil {
			t.Fatalf("after one pass: %+v", got)
		}
		if c := e.Claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched); c.Reason != "NodeClassNotFound" || !strings.Contains(c.Message, "missing") {
			t.Errorf("the claim says %+v", c)
		}
		e.Steps(5)
		said := func(s string) bool {
			return strings.HasPrefix(s, "NodeClassResolutionError: ") && strings.Contains(s, "create it")
		}
		if len(e.Claims()) != 0 || !slices.ContainsFunc(e.EventTexts("alone"), said) || e.Counter("karpenter_nodeclaims_disrupted_total") != 1 {
			t.Errorf("%d claims are left; said %q; %v counted", len(e.Claims()), e.EventTexts("alone"), e.Counter("karpenter_nodeclaims_disrupted_total"))
		}
	})
}

// A class that the provider's cache does not show yet deletes no claim: the API is asked past the
// cache. An API that does not answer deletes none either.
//
// Rule LAUNCH-9.
func TestClaimOutlivesCacheThatIsBehind(t *testing.T) {
	for name, answer := range map[string]error{"the class is there": nil, "no answer": apierrors.NewInternalError(context.DeadlineExceeded)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, behind := controllertest.New(t, memory.Options{}), true
				e.Lifecycle.Catalog = catalog.New(classless{e.Provider, func(string) bool { return !behind }}, e.Mirror, e.Metrics)
				e.Lifecycle.Live = interceptor.NewClient(e.API, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
						if _, class := into.(*unstructured.Unstructured); class && answer != nil {
							return answer
						}
						return c.Get(ctx, key, into, opts...)
					},
				})
				e.Create(claimOf("default"))
				e.Steps(30)
				if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil || got[0].StatusConditions().Get(karpv1.ConditionTypeLaunched).Reason != "NodeClassReadinessUnknown" {
					t.Fatalf("while the cache is behind: %+v", got)
				}
				behind = false
				e.Until(20, "an instance", func() bool { return kube.ConditionTrue(&e.Claims()[0], karpv1.ConditionTypeLaunched) })
			})
		})
	}
}

// A kind of class that the API does not serve has no classes.
//
// Rule LAUNCH-9.
func TestClaimOfUnservedKindOfNodeClassEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Lifecycle.NodeClassGVK = schema.GroupVersionKind{Group: "test.karve.dev", Version: "v1", Kind: "Unserved"}
		e.Lifecycle.Catalog = catalog.New(classless{e.Provider, func(string) bool { return false }}, e.Mirror, e.Metrics)
		claim := claimOf("default")
		claim.Spec.NodeClassRef.Kind = "Unserved"
		e.Create(claim)
		e.Step()
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp == nil {
			t.Errorf("after one pass: %+v", got)
		}
	})
}
