// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

const foreignID = "aws:///us-east-1a/i-0123456789abcdef0"

// A NodeClaim whose provider ID was not issued by Azure is kept while its Node works, and
// one event reports the ID. No controller fails for it: a failure fails this test.
//
// Rule LAUNCH-10.
func TestForeignProviderIDIsSaidAndFailsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := inherit(t).start()
		claim, _ := k.foreign()
		k.run(20 * time.Minute)
		k.get(claim)
		c := claim.StatusConditions().Get(kube.ConditionProviderIDRecognized)
		if claim.DeletionTimestamp != nil || !c.IsFalse() || c.Reason != "ForeignProviderID" || c.Message == "" {
			t.Errorf("deleted %v, says %+v", claim.DeletionTimestamp, c)
		}
		if n := k.writesOf(claim.Name); n != 1 {
			t.Errorf("the claim was written %d times in twenty minutes, want once: %q", n, k.writes)
		}
	})
}

// It is deleted when a user deletes it, and when its Node does not work any more; claims of
// VMs that exist are kept.
//
// Rule LAUNCH-10.
func TestForeignProviderIDDoesNotKeepNodeClaim(t *testing.T) {
	for name, end := range map[string]func(*karve, *karpv1.NodeClaim, *corev1.Node) error{
		"deleted": func(k *karve, claim *karpv1.NodeClaim, _ *corev1.Node) error {
			return k.api.Delete(k.t.Context(), claim)
		},
		"its node is not ready": func(k *karve, _ *karpv1.NodeClaim, node *corev1.Node) error {
			k.get(node)
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.Now()}}
			return k.api.Status().Update(k.t.Context(), node)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Nothing else is disrupted.
				k := inherit(t, `budgets: [{nodes: "100%"}]`, `budgets: [{nodes: "0"}]`).start()
				claim, node := k.foreign()
				k.run(time.Minute)
				if err := end(k, claim, node); err != nil {
					t.Fatal(err)
				}
				k.run(10 * time.Minute)
				for _, o := range []client.Object{claim, node} {
					if err := k.api.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
						t.Errorf("%T %s is still there: %v", o, o.GetName(), err)
					}
				}
				list := &karpv1.NodeClaimList{}
				if err := k.api.List(t.Context(), list); err != nil || len(list.Items) != 3 || len(k.changes) > 0 {
					t.Errorf("%d claims are left, want the three of Karpenter's; changed in Azure %q: %v", len(list.Items), k.changes, err)
				}
			})
		})
	}
}

// foreign adds a claim with another cloud's provider ID, and its Node, which is ready.
func (c *cluster) foreign() (*karpv1.NodeClaim, *corev1.Node) {
	c.t.Helper()
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	claim.Name, node.Name = "web-x7k2p", "aks-web-x7k2p"
	c.get(claim)
	c.get(node)
	rename(claim, "foreign", "f0")
	rename(node, "foreign", "f1")
	node.OwnerReferences, node.Spec.ProviderID = nil, foreignID
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, karpv1.DoNotDisruptAnnotationKey, "true") // it is empty
	status := claim.Status
	status.NodeName, status.ProviderID = node.Name, foreignID
	for _, o := range []client.Object{claim, node} {
		if err := c.api.Create(c.t.Context(), o); err != nil {
			c.t.Fatal(err)
		}
	}
	claim.Status = status
	if err := c.api.Status().Update(c.t.Context(), claim); err != nil {
		c.t.Fatal(err)
	}
	c.writes = nil
	return claim, node
}

func rename(o client.Object, name string, uid types.UID) {
	o.SetName(name)
	o.SetUID(uid)
	o.SetResourceVersion("")
}

func (c *cluster) get(o client.Object) {
	c.t.Helper()
	if err := c.api.Get(c.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		c.t.Fatal(err)
	}
}

// writesOf is how often an object was written.
func (c *cluster) writesOf(name string) int {
	n := 0
	for _, w := range c.writes {
		if w.name == name {
			n++
		}
	}
	return n
}

// A NodeClaim whose AKSNodeClass does not exist is deleted at once.
//
// Rule LAUNCH-9.
func TestNodeClaimWithoutAKSNodeClassEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := inherit(t).start()
		claim := &karpv1.NodeClaim{}
		claim.Name = "web-x7k2p"
		k.get(claim)
		rename(claim, "classless", "f2")
		claim.Finalizers, claim.OwnerReferences, claim.Status = nil, nil, karpv1.NodeClaimStatus{}
		claim.CreationTimestamp = metav1.Now()
		claim.Spec.NodeClassRef.Name = "no-such-class"
		if err := k.api.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		k.run(time.Minute)
		if err := k.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("a minute later it is still there: %v, %+v", err, claim.StatusConditions().Get(karpv1.ConditionTypeLaunched))
		}
	})
}
