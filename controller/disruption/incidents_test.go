// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/controller/drift"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// TestIncident36UpgradeDriftsEverything: a new version computed the hash of a NodePool's
// template in another way, or filled in another default, and every node of every cluster
// had drifted at once: a full outage (aws/karpenter-provider-aws 5373,
// kubernetes-sigs/karpenter 1510).
//
// A karve that finds claims stamped by another version stamps them again, whichever controller
// runs first, and disrupts no node.
func TestIncident36UpgradeDriftsEverything(t *testing.T) {
	for name, pool := range map[string]func(*karpv1.NodePool){
		"pools stamped by the old version": func(p *karpv1.NodePool) { stampOld(&p.Annotations) },
		"pools not stamped at all":         func(p *karpv1.NodePool) { p.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { upgrade(t, pool) })
		})
	}
}

func upgrade(t *testing.T, before func(*karpv1.NodePool)) {
	e := controllertest.New(t, memory.Options{Create: 2 * time.Second, Delete: time.Second})
	e.Disrupt = func(c *disruption.Options) {
		c.Search, c.Recheck = disrupt.Search, disrupt.Recheck
		c.Settings = disrupt.Defaults()
	}
	e.Restart()
	e.Pace = 5 * time.Second
	e.Create(controllertest.Pool("web", "30s"))
	for i := range 4 {
		e.Create(controllertest.Pod(fmt.Sprint("web-", i), "31", "1Gi")) // one node each
	}
	e.Until(60, "four nodes", func() bool { e.Join(); return e.Ready() == 4 })
	for i, node := range e.Nodes() {
		e.Bind(fmt.Sprint("web-", i), node.Name)
	}

	// The version before wrote all of this.
	p := controllertest.Get(e, &karpv1.NodePool{}, "web")
	before(p)
	rewrite(e, p)
	for _, c := range e.Claims() {
		stampOld(&c.Annotations)
		rewrite(e, &c)
	}
	e.Restart()
	d := &drift.Reconciler{Client: e.Client, Catalog: e.Static.Catalog, Drifter: memory.New(e.Cloud), Events: e.Events,
		Metrics: e.Metrics, Log: logr.Discard(), NodeClassGVK: controllertest.NodeClassGVK()}
	for range 60 {
		for _, c := range e.Claims() {
			if _, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&c)}); err != nil {
				t.Fatal(err)
			}
			if c := controllertest.Get(e, &karpv1.NodeClaim{}, c.Name); kube.ConditionTrue(c, karpv1.ConditionTypeDrifted) {
				t.Fatalf("%s has drifted by an upgrade alone", c.Name)
			}
		}
		e.Steps(2)
	}
	if len(e.Claims()) != 4 || e.Cloud.Launched() != 4 || !unmarked(e) {
		t.Errorf("%d claims and %d instances launched, want the four that were there", len(e.Claims()), e.Cloud.Launched())
	}
	for _, c := range e.Claims() {
		if c.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
			t.Errorf("%s is stamped by the old version still", c.Name)
		}
	}
}

// stampOld stamps as a version with another formula did.
func stampOld(annotations *map[string]string) {
	if *annotations == nil {
		*annotations = map[string]string{}
	}
	(*annotations)[karpv1.NodePoolHashAnnotationKey] = "12393960163388511505"
	(*annotations)[karpv1.NodePoolHashVersionAnnotationKey] = "v2"
}

func rewrite(e *controllertest.Env, o client.Object) {
	e.T.Helper()
	if err := e.API.Update(e.T.Context(), o); err != nil {
		e.T.Fatalf("rewriting %s: %v", o.GetName(), err)
	}
}
