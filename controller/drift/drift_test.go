// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/drift"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// cluster is an Env with a drift reconciler.
type cluster struct {
	*controllertest.Env
	*drift.Reconciler
}

func start(t *testing.T) *cluster {
	c := &cluster{Env: controllertest.New(t, memory.Options{})}
	c.renew()
	return c
}

// renew has the reconciler begin anew, as after a restart.
func (c *cluster) renew() {
	c.Reconciler = &drift.Reconciler{Client: c.Env.Client, Catalog: c.Static.Catalog, Drifter: memory.New(c.Cloud), Events: c.Env.Events,
		Metrics: c.Env.Metrics, Log: logr.Discard(), NodeClassGVK: controllertest.NodeClassGVK()}
}

// drifted reconciles every claim and lists the reasons of those that have drifted.
func (c *cluster) drifted() []string {
	c.T.Helper()
	var reasons []string
	for _, claim := range c.Claims() {
		if _, err := c.Reconciler.Reconcile(c.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)}); err != nil {
			c.T.Fatal(err)
		}
		claim := controllertest.Get(c.Env, &karpv1.NodeClaim{}, claim.Name)
		if condition := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); condition.IsTrue() {
			reasons = append(reasons, condition.Reason)
		}
	}
	return reasons
}

func (c *cluster) want(when string, reasons ...string) {
	c.T.Helper()
	if got := c.drifted(); fmt.Sprint(got) != fmt.Sprint(reasons) {
		c.T.Fatalf("%s: drifted are %v, want %v", when, got, reasons)
	}
}

func (c *cluster) change(change func(*karpv1.NodePool)) {
	c.T.Helper()
	p := controllertest.Get(c.Env, &karpv1.NodePool{}, "web")
	change(p)
	if err := c.API.Update(c.T.Context(), p); err != nil {
		c.T.Fatal(err)
	}
	c.Steps(2)
}

// joined makes n nodes of a pool.
func (c *cluster) joined(pool *karpv1.NodePool, n int) {
	c.T.Helper()
	c.Create(pool)
	for i := range n {
		c.Create(controllertest.Pod(fmt.Sprint("pod-", i), "26", "1Gi")) // one to a node
	}
	c.Until(60, "nodes", func() bool { c.Join(); return len(c.Nodes()) == n })
	c.Steps(5)
}

// A claim drifts for the first reason that holds, in order, and no longer when
// none does. Fields outside the template never make it drift.
//
// Rule DRIFT-1.
func TestDriftComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.joined(controllertest.Pool("web", "Never"), 2)
		c.want("at first")
		c.change(func(p *karpv1.NodePool) {
			weight := int32(7)
			p.Spec.Weight, p.Spec.Limits, p.Spec.Disruption.Budgets = &weight, karpv1.Limits{"cpu": resource.MustParse("1")}, nil
		})
		c.want("after changes outside of the template")
		c.Cloud.PublishImage("newer")
		c.want("after a new image", "ImageDrift", "ImageDrift")
		since := c.Claims()[0].StatusConditions().Get(karpv1.ConditionTypeDrifted).LastTransitionTime
		time.Sleep(time.Hour)
		c.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "a"} })
		c.want("after a change of the template, too", "NodePoolDrifted", "NodePoolDrifted")
		if now := c.Claims()[0].StatusConditions().Get(karpv1.ConditionTypeDrifted).LastTransitionTime; !now.Equal(&since) {
			t.Errorf("it drifted at %s and now at %s: who drifted first would change", since, now)
		}
		c.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels = nil })
		c.Cloud.PublishImage("memory-image")
		c.want("after all is as it was")
		if got := c.Counter("karve_nodeclaims_drifted_total"); got != 2 {
			t.Errorf("%v claims were counted as drifted, want each once", got)
		}
	})
}

// A node that was just launched has not drifted, whatever the pool asks for: else each
// replacement would be replaced.
//
// Rule DRIFT-4.
func TestJustLaunchedHasNotDrifted(t *testing.T) {
	rule := func(key string, operator corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values}
	}
	two := 2
	for name, rules := range map[string][]karpv1.NodeSelectorRequirementWithMinValues{
		"own label":            {rule("team", corev1.NodeSelectorOpIn, "a")},
		"own label, a choice":  {rule("team", corev1.NodeSelectorOpIn, "a", "b")},
		"own label, any":       {rule("team", corev1.NodeSelectorOpExists)},
		"own label, not one":   {rule("team", corev1.NodeSelectorOpNotIn, "a")},
		"own label, none":      {rule("team", corev1.NodeSelectorOpDoesNotExist)},
		"own label, a number":  {rule("generation", corev1.NodeSelectorOpGt, "5")},
		"two rules on a label": {rule("team", corev1.NodeSelectorOpIn, "a", "b"), rule("team", corev1.NodeSelectorOpNotIn, "a")},
		"old names":            {rule("failure-domain.beta.kubernetes.io/zone", corev1.NodeSelectorOpIn, "zone-2"), rule("beta.kubernetes.io/arch", corev1.NodeSelectorOpIn, "amd64")},
		"label of the type":    {rule("memory.karve.dev/family", corev1.NodeSelectorOpIn, "large", "gpu")},
		"on demand":            {rule(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpNotIn, "spot")},
		"several types":        {{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists, MinValues: &two}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t)
				pool := controllertest.Pool("web", "Never")
				pool.Spec.Template.Spec.Requirements = rules
				c.Create(pool)
				pod := controllertest.Pod("a", "1", "1Gi")
				c.Create(pod)
				c.Steps(20)
				if len(c.Claims()) != 1 {
					t.Fatal("nothing was launched")
				}
				c.want("a new claim")
				time.Sleep(2 * time.Hour)
				c.want("later")
			})
		})
	}
}

// Missing data marks no claim as drifted and clears none: neither a catalog that
// shrank once, nor a provider that cannot decide.
//
// Rule DRIFT-2, Rule DRIFT-3.
func TestMissingDataChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.joined(controllertest.Pool("web", "Never"), 1)
		time.Sleep(2 * time.Hour)
		all := memory.Types()
		c.Cloud.SetTypes(all[:1])
		c.want("with one partial answer")
		c.Cloud.SetTypes(all)
		time.Sleep(time.Minute)
		c.want("when it is whole again")

		c.Cloud.PublishImage("newer")
		broken := errors.New("the cloud is down")
		c.Cloud.SetFault(func(string) error { return broken })
		c.want("while the provider cannot tell")
		c.Cloud.SetFault(nil)
		c.want("when it can", "ImageDrift")
		c.Cloud.SetFault(func(string) error { return broken })
		c.want("and cannot again", "ImageDrift")
		c.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "a"} })
		c.want("what is certain goes before", "NodePoolDrifted")
		c.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels = nil })
		c.want("and does not stay for what is not known")
		c.Cloud.SetFault(nil)
		c.Cloud.PublishImage("memory-image")

		c.Cloud.SetTypes(all[:1])
		time.Sleep(time.Minute)
		c.want("missing once")
		time.Sleep(time.Minute)
		c.want("still the same answer")
		time.Sleep(15 * time.Minute)
		c.want("missing from another answer", "InstanceTypeNotFound")
		c.Cloud.SetTypes(all)
		time.Sleep(time.Minute)
		c.want("when it is sold again")
	})
}

// An upgrade with another formula for hashes makes no claim drift, and claims that
// had drifted remain so.
//
// Rule DRIFT-6.
func TestUpgradeMakesNobodyDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.joined(controllertest.Pool("web", "Never"), 3)
		old := map[string]string{karpv1.NodePoolHashAnnotationKey: "of-old", karpv1.NodePoolHashVersionAnnotationKey: "v2"}
		pool := controllertest.Get(c.Env, &karpv1.NodePool{}, "web")
		pool.Annotations = old
		if err := c.API.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		for i, claim := range c.Claims() {
			claim.Annotations[karpv1.NodePoolHashAnnotationKey], claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "of-old", "v2"
			if i == 0 {
				claim.Annotations[karpv1.NodePoolHashAnnotationKey] = "older"
			}
			if err := c.API.Update(t.Context(), &claim); err != nil {
				t.Fatal(err)
			}
		}
		c.want("before the upgrade", "NodePoolDrifted")
		c.Restart()
		c.renew()
		c.Feed()
		c.want("before the pool is stamped", "NodePoolDrifted")
		c.Steps(3)
		c.want("after it was stamped", "NodePoolDrifted")
		if got := controllertest.Get(c.Env, &karpv1.NodePool{}, "web").Annotations[karpv1.NodePoolHashVersionAnnotationKey]; got != karpv1.NodePoolHashVersion {
			t.Fatalf("the pool still has hash version %s: nothing was tested", got)
		}
	})
}

// Claims that were not launched, are going, or belong to no pool do not drift.
//
// Rule DRIFT-1.
func TestWhoCannotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.joined(controllertest.Pool("web", "Never"), 3)
		c.Cloud.PublishImage("newer")
		claims := c.Claims()
		c.Delete(&claims[0])
		alone := claims[1].DeepCopy()
		delete(alone.Labels, karpv1.NodePoolLabelKey)
		if err := c.API.Update(t.Context(), alone); err != nil {
			t.Fatal(err)
		}
		c.want("of three", "ImageDrift")
		last := controllertest.Get(c.Env, &karpv1.NodeClaim{}, claims[2].Name)
		last.StatusConditions().SetUnknown(karpv1.ConditionTypeLaunched)
		if err := c.API.Status().Update(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		c.want("none is left")
	})
}

// listener is a provider's Drifter that only listens.
type listener struct{ told []provider.LaunchedNode }

func (l *listener) Drift(_ context.Context, m provider.LaunchedNode) (provider.Drift, error) {
	l.told = append(l.told, m)
	return provider.Drift{}, nil
}

// The provider gets the offering that its instance was launched with: the VM may have another by
// now.
//
// Rule DRIFT-9.
func TestDrifterGetsLaunchedOffering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.joined(controllertest.Pool("web", "Never"), 1)
		l := &listener{}
		c.Reconciler.Drifter = l
		c.want("asked")
		want := c.Claims()[0].Labels[corev1.LabelInstanceTypeStable]
		if len(l.told) != 1 || want == "" || l.told[0].Type != want {
			t.Errorf("told %+v, want the type %q", l.told, want)
		}
	})
}
