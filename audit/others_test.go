// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func (h *history) asks(method, resource string) {
	h.a.Request(h.now, Request{Method: method, Resource: resource, Status: http.StatusAccepted})
	h.a.Check(h.now)
}

// S2: karve deletes nothing that is not this cluster's.
func TestOwnership(t *testing.T) {
	theirs := nicFor("x", map[string]string{"owner": "me"})
	run(t, "S2", map[string]func(h *history){
		"its own": func(h *history) {
			h.cloud(vmFor(claimOf("a1", "a", "")))
			h.asks(http.MethodDelete, vmID("a1")+"?api-version=2025-04-01")
		},
		"another's [S2]": func(h *history) { // cloudpilot-ai/karpenter-provider-gcp 107
			h.cloud(theirs)
			h.asks(http.MethodDelete, strings.ToUpper(theirs.ID)+"?api-version=2025-04-01")
		},
		"an extension of another's VM [S2]": func(h *history) {
			vm := vmFor(claimOf("x", "a", ""))
			vm.Tags = nil
			h.cloud(vm)
			h.asks(http.MethodDelete, vm.ID+"/extensions/e")
		},
		"another's is read": func(h *history) {
			h.cloud(theirs)
			h.asks(http.MethodGet, theirs.ID)
		},
		"a disk without any tag": func(h *history) {
			disk := Resource{ID: "/subscriptions/s/disks/d", Kind: Disk}
			h.cloud(disk)
			h.asks(http.MethodDelete, disk.ID)
		},
		"what is not known": func(h *history) { h.asks(http.MethodDelete, "/subscriptions/s/disks/d") },
	})
}

// S12: a short list deletes no VMs that work.
func TestMassDeletion(t *testing.T) {
	working := func(h *history, n int) (claims []*karpv1.NodeClaim) {
		var vms []Resource
		for i := range n {
			c := initialized(claimOf(fmt.Sprintf("a%d", i), "a", ""), "cpu=4")
			h.put(c, nodeOf(c))
			claims, vms = append(claims, c), append(vms, vmFor(c))
		}
		h.cloud(vms...)
		return claims
	}
	run(t, "S12", map[string]func(h *history){
		"four that work [S12]": func(h *history) { // kubernetes/autoscaler 7432
			for _, c := range working(h, 10)[:4] {
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"without their NodeClaims [S12]": func(h *history) {
			claims := working(h, 10)
			for _, c := range claims {
				h.remove(c)
			}
			h.a = New(h.a.settings) // which saw neither NodeClaims nor their end
			var vms []Resource
			for _, c := range claims {
				h.put(nodeOf(c))
				vms = append(vms, vmFor(c))
			}
			h.cloud(vms...)
			for _, c := range claims {
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"three": func(h *history) {
			for _, c := range working(h, 10)[:3] {
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"a tenth": func(h *history) {
			for _, c := range working(h, 100)[:10] {
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"one by one": func(h *history) {
			for _, c := range working(h, 10) {
				h.asks(http.MethodDelete, vmID(c.Name))
				h.wait(3 * time.Minute)
			}
		},
		"whose NodeClaims were deleted": func(h *history) {
			for _, c := range working(h, 10) {
				h.terminate(c)
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"which do not work": func(h *history) {
			for _, c := range working(h, 10) {
				h.put(readiness(nodeOf(c), corev1.ConditionUnknown))
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
		"which a person confirmed": func(h *history) {
			h.event(poolOf("a", ""), eventConfirmed)
			for _, c := range working(h, 10) {
				h.asks(http.MethodDelete, vmID(c.Name))
			}
		},
	})
}

// S8: what is to be left alone is.
func TestProtections(t *testing.T) {
	minute := karpv1.NillableDuration{Duration: new(time.Minute)}
	one := func(h *history, p *corev1.Pod, change func(c *karpv1.NodeClaim, n *corev1.Node, p *karpv1.NodePool)) *budgeted {
		b := withNodes(h, 1)
		b.pool.Spec.Disruption.ConsolidateAfter = minute
		change(b.claims[0], b.nodes[0], b.pool)
		h.put(b.pool, b.claims[0], b.nodes[0])
		if p != nil {
			h.put(p)
		}
		h.wait(time.Minute)
		return b
	}
	nothing := func(*karpv1.NodeClaim, *corev1.Node, *karpv1.NodePool) {}
	protected := func(value string) *corev1.Pod {
		p := podOn("p", "a0")
		started := metav1.NewTime(begin)
		p.Status.StartTime = &started
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: value}
		return p
	}
	run(t, "S8", map[string]func(h *history){
		"nothing protects it": func(h *history) { one(h, podOn("p", "a0"), nothing).disrupt("Underutilized", 0) },
		"the node is protected [S8]": func(h *history) {
			one(h, nil, func(_ *karpv1.NodeClaim, n *corev1.Node, _ *karpv1.NodePool) {
				n.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			}).disrupt("Drifted", 0)
		},
		"the annotation says something else": func(h *history) {
			one(h, nil, func(_ *karpv1.NodeClaim, n *corev1.Node, _ *karpv1.NodePool) {
				n.Annotations[karpv1.DoNotDisruptAnnotationKey] = "false"
			}).disrupt("Drifted", 0)
		},
		"a pod is protected [S8]":             func(h *history) { one(h, protected("true"), nothing).disrupt("Underutilized", 0) },
		"a pod is protected for an hour [S8]": func(h *history) { one(h, protected("1h"), nothing).disrupt("Drifted", 0) },
		"a pod was protected for a minute":    func(h *history) { one(h, protected("1m"), nothing).disrupt("Underutilized", 0) },
		"a pod's annotation makes no sense":   func(h *history) { one(h, protected("yes"), nothing).disrupt("Underutilized", 0) },
		"drift with a terminationGracePeriod goes": func(h *history) {
			one(h, protected("true"), func(c *karpv1.NodeClaim, _ *corev1.Node, _ *karpv1.NodePool) {
				c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			}).disrupt("Drifted", 0)
		},
		"consolidation with one does not [S8]": func(h *history) {
			one(h, protected("true"), func(c *karpv1.NodeClaim, _ *corev1.Node, _ *karpv1.NodePool) {
				c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			}).disrupt("Underutilized", 0)
		},
		"a pod came a moment before [S8]": func(h *history) {
			b := one(h, nil, nothing)
			b.claims[0].Status.LastPodEventTime = metav1.NewTime(h.now.Add(-30 * time.Second))
			h.put(b.claims[0])
			b.disrupt("Empty", 0)
		},
		"a pod came a while before": func(h *history) {
			b := one(h, nil, nothing)
			b.claims[0].Status.LastPodEventTime = metav1.NewTime(h.now.Add(-61 * time.Second))
			h.put(b.claims[0])
			b.disrupt("Empty", 0)
		},
		"a pool that never consolidates [S8]": func(h *history) {
			one(h, nil, func(_ *karpv1.NodeClaim, _ *corev1.Node, p *karpv1.NodePool) {
				p.Spec.Disruption.ConsolidateAfter = karpv1.NillableDuration{}
			}).disrupt("Underutilized", 0)
		},
		"a pool that consolidates empty nodes only [S8]": func(h *history) {
			one(h, nil, func(_ *karpv1.NodeClaim, _ *corev1.Node, p *karpv1.NodePool) {
				p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
			}).disrupt("Underutilized", 0)
		},
		"a NodeClaim that never expires [S8]": func(h *history) { one(h, nil, nothing).disrupt("Expired", 0) },
		"protected while it waits for its replacement [S8]": func(h *history) {
			b := one(h, nil, nothing)
			b.disrupt("Drifted", 0)
			h.wait(time.Minute)
			b.nodes[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			h.put(b.nodes[0])
			h.wait(time.Minute)
			h.terminate(b.claims[0])
			h.event(b.claims[0], eventTerminating)
		},
		"protected after it was deleted": func(h *history) {
			b := one(h, nil, nothing)
			b.disrupt("Drifted", 0)
			h.wait(time.Minute)
			h.terminate(b.claims[0])
			h.wait(time.Second)
			b.nodes[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			h.put(b.nodes[0])
			h.event(b.claims[0], eventTerminating)
		},
	})
	runWith(t, lagging, "S8", map[string]func(h *history){
		"protected a moment before": func(h *history) {
			b := one(h, nil, nothing)
			b.nodes[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			h.put(b.nodes[0], protected("true"))
			h.wait(5 * time.Second)
			b.disrupt("Drifted", 0)
		},
	})
}

// S13 and L6: not too much at once.
func TestRates(t *testing.T) {
	s := Settings{ObjectLag: -1, MostCreated: 3, MostDisrupted: 1, MostFailed: 2}
	made := func(t *testing.T) *history { return newHistory(t, s) }
	runWith(t, made, "S13", map[string]func(h *history){
		"as many as may be": func(h *history) {
			for i := range 6 {
				h.put(claimOf(fmt.Sprint("a", i), "a", ""))
				h.wait(20 * time.Second)
			}
		},
		"more [S13]": func(h *history) { // the number of pods grew a hundredfold
			for i := range 4 {
				h.put(claimOf(fmt.Sprint("a", i), "a", ""))
			}
		},
		"disruptions [S13]": func(h *history) { withNodes(h, 2).disrupt("Drifted", 0, 1) },
	})
	fails := func(h *history, n int, every time.Duration) {
		for i := range n {
			c := claimOf(fmt.Sprint("a", i), "a", "")
			h.put(c)
			h.remove(c)
			h.wait(every)
		}
	}
	runWith(t, made, "L6", map[string]func(h *history){
		"launches fail [L6]":         func(h *history) { fails(h, 3, time.Minute) }, // kubernetes-sigs/karpenter 3198
		"launches fail now and then": func(h *history) { fails(h, 6, 40*time.Minute) },
		"nodes go": func(h *history) {
			for i := range 5 {
				c := initialized(claimOf(fmt.Sprint("a", i), "a", ""), "cpu=4")
				h.put(c)
				h.remove(c)
			}
		},
	})
}

// S14: consolidation does not go around in circles.
func TestCycles(t *testing.T) {
	sized := func(name, size string) *karpv1.NodeClaim {
		c := initialized(claimOf(name, "a", ""), "cpu=4")
		c.Labels[corev1.LabelInstanceTypeStable] = size
		return c
	}
	// turn replaces a node by another one, for a cause, and moves its pod.
	turn := func(h *history, from, to *karpv1.NodeClaim, cause string) {
		h.put(said(from, karpv1.ConditionTypeDisruptionReason, metav1.ConditionTrue, cause))
		h.put(to)
		h.terminate(from)
		h.remove(podOn("p-"+from.Name, from.Name))
		h.put(podOn("p-"+to.Name, to.Name))
		h.remove(from)
		h.wait(10 * time.Minute)
	}
	circle := func(h *history, turns int, cause string, between func(i int)) {
		h.put(poolOf("a", ""), sized("n0", "D4"), podOn("p-n0", "n0"))
		h.wait(time.Minute)
		for i := range turns {
			sizes := []string{"D4", "D8"}
			turn(h, sized(fmt.Sprint("n", i), sizes[i%2]), sized(fmt.Sprint("n", i+1), sizes[(i+1)%2]), cause)
			between(i)
		}
	}
	nothing := func(int) {}
	run(t, "S14", map[string]func(h *history){
		"there and back":                func(h *history) { circle(h, 3, "Underutilized", nothing) },
		"there and back and back [S14]": func(h *history) { circle(h, 4, "Underutilized", nothing) }, // aws/karpenter-provider-aws 8536
		"by drift":                      func(h *history) { circle(h, 8, "Drifted", nothing) },
		"slowly": func(h *history) {
			circle(h, 8, "Underutilized", func(int) { h.wait(time.Hour) })
		},
		"as pods come and go": func(h *history) {
			circle(h, 8, "Underutilized", func(i int) {
				p := podOn("extra", fmt.Sprint("n", i+1))
				if h.put(p); i%2 == 1 {
					h.remove(p)
				}
			})
		},
		"as the NodePool changes": func(h *history) {
			circle(h, 8, "Underutilized", func(i int) { h.put(poolOf("a", fmt.Sprint("nodes=", 10+i))) })
		},
	})
}

// S21: only the leader writes.
func TestFencing(t *testing.T) {
	lease := func(h *history, holder string) {
		h.put(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: "kube-system", UID: "l"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		})
		h.wait(time.Minute)
	}
	write := func(h *history, method, resource, by string) {
		h.a.Request(h.now, Request{Method: method, Resource: resource, Status: 201, By: by})
		h.wait(time.Minute)
	}
	run(t, "S21", map[string]func(h *history){
		"the leader": func(h *history) {
			lease(h, "one")
			write(h, http.MethodPut, vmID("a"), "one")
		},
		"one that led before [S21]": func(h *history) {
			lease(h, "one")
			lease(h, "two")
			write(h, http.MethodPut, vmID("a"), "one")
		},
		"it reads": func(h *history) {
			lease(h, "two")
			write(h, http.MethodGet, vmID("a"), "one")
		},
		"it writes events, and asks for the lease": func(h *history) {
			lease(h, "two")
			write(h, http.MethodPost, "/api/v1/namespaces/default/events", "one")
			write(h, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election", "one")
		},
		"no lease was seen": func(h *history) { write(h, http.MethodPut, vmID("a"), "one") },
	})
}

// S23: secrets are written nowhere.
func TestCanaries(t *testing.T) {
	made := func(t *testing.T) *history {
		return newHistory(t, Settings{ObjectLag: -1, Canaries: []string{"s3cr3t"}})
	}
	runWith(t, made, "S23", map[string]func(h *history){
		"in a Secret": func(h *history) {
			h.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", UID: "s"}, StringData: map[string]string{"token": "s3cr3t"}})
		},
		"in an annotation [S23]": func(h *history) {
			c := claimOf("a1", "a", "")
			c.Annotations["note"] = "token=s3cr3t;"
			h.put(c, c)
		},
		"in the log [S23]": func(h *history) { // Azure/AgentBaker 6243
			h.a.Text(h.now, "log", "joining with s3cr3t")
			h.a.Text(h.now, "log", "joining with s3cr3t")
		},
		"nowhere": func(h *history) { h.a.Text(h.now, "log", "joining") },
	})
	h := made(t)
	h.a.Text(h.now, "log", "s3cr3t")
	if v := h.a.Violations(); len(v) != 1 || strings.Contains(v[0].Message, "s3cr3t") {
		t.Errorf("%v repeats the secret, or is not one violation", v)
	}
}

// S25: users can read why.
func TestRecords(t *testing.T) {
	replacing := func() *karpv1.NodeClaim {
		c := claimOf("new", "a", "")
		c.Annotations[annotationReplaces] = "m1"
		return c
	}
	run(t, "S25", map[string]func(h *history){
		"it says what it is for": func(h *history) {
			c := replacing()
			h.put(c)
			h.event(c, eventLaunching)
		},
		"it says so before it is seen": func(h *history) {
			c := replacing()
			h.event(c, eventLaunching)
			h.put(c)
		},
		"it does not say [S25]": func(h *history) {
			h.put(replacing())
			h.wait(2 * time.Minute)
		},
		"deleted with an event": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			h.event(nodeOf(c), "DisruptionTerminating")
			h.remove(c)
			h.wait(2 * time.Minute)
		},
		"deleted with an event that comes later": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			h.remove(c)
			h.wait(time.Second)
			h.event(c, "Finalized")
			h.wait(2 * time.Minute)
		},
		"deleted without a word [S25]": func(h *history) { // aws/karpenter-provider-aws 7083
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			h.remove(c)
			h.wait(2 * time.Minute)
		},
	})
}

// S27: pods have their grace period as long as there is time.
func TestGracePeriods(t *testing.T) {
	evicted := func(h *history, grace int64, deadline time.Duration) {
		c := initialized(claimOf("a1", "a", ""), "cpu=4")
		if deadline > 0 {
			c.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = h.now.Add(deadline).Format(time.RFC3339)
		}
		p := podOn("p", "a1")
		h.put(c, nodeOf(c), p)
		p.DeletionGracePeriodSeconds = &grace
		h.evict(p)
	}
	run(t, "S27", map[string]func(h *history){
		"all of it":                        func(h *history) { evicted(h, 30, time.Hour) },
		"none, with time left [S27]":       func(h *history) { evicted(h, 0, time.Minute) }, // Azure/karpenter-provider-azure 1829
		"none, without a deadline [S27]":   func(h *history) { evicted(h, 0, 0) },
		"what is left before the deadline": func(h *history) { evicted(h, 10, 15*time.Second) },
	})
}

// L2, L4 and L7: pods have an answer, NodeClaims a Node, and empty nodes go.
func TestProgress(t *testing.T) {
	run(t, "L2", map[string]func(h *history){
		"an answer": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.wait(4 * time.Minute)
			h.event(p, eventUnschedulable)
			h.wait(time.Hour)
		},
		"an answer before kube-scheduler looked": func(h *history) {
			p := podOn("p", "")
			conditions := p.Status.Conditions
			p.Status.Conditions = nil
			h.put(p)
			h.event(p, eventNominated)
			p = p.DeepCopy()
			p.Status.Conditions = conditions
			h.put(p)
			h.wait(6 * time.Minute)
		},
		"no answer [L2]": func(h *history) { // Azure/AKS 2345
			h.put(podOn("p", ""))
			h.wait(6 * time.Minute)
		},
	})
	run(t, "L4", map[string]func(h *history){
		"a Node": func(h *history) {
			c := claimOf("a1", "a", "")
			h.put(c)
			h.wait(29 * time.Minute)
			h.put(said(c, karpv1.ConditionTypeRegistered, metav1.ConditionTrue, "Registered"))
			h.wait(24 * time.Hour)
		},
		"given up": func(h *history) {
			c := claimOf("a1", "a", "")
			h.put(c)
			h.wait(29 * time.Minute)
			h.terminate(c)
			h.wait(24 * time.Hour)
		},
		"neither [L4]": func(h *history) { // kubernetes/autoscaler 8258
			h.put(claimOf("a1", "a", ""))
			h.wait(31 * time.Minute)
		},
	})
	empty := func(h *history, after karpv1.NillableDuration, budget string) *budgeted {
		b := withNodes(h, 2, karpv1.Budget{Nodes: budget})
		b.pool.Spec.Disruption.ConsolidateAfter = after
		h.put(b.pool, podOn("p", "a0"))
		return b
	}
	minute := karpv1.NillableDuration{Duration: new(time.Minute)}
	run(t, "L7", map[string]func(h *history){
		"an empty node stays [L7]": func(h *history) { // kubernetes-sigs/karpenter 903
			empty(h, minute, "10%")
			h.wait(62 * time.Minute)
		},
		"karve says why": func(h *history) {
			b := empty(h, minute, "10%")
			for range 8 {
				h.wait(15 * time.Minute)
				h.event(b.nodes[1], "Unconsolidatable")
			}
		},
		"its budget allows none": func(h *history) {
			empty(h, minute, "0")
			h.wait(2 * time.Hour)
		},
		"its pool never consolidates": func(h *history) {
			empty(h, karpv1.NillableDuration{}, "10%")
			h.wait(2 * time.Hour)
		},
		"it is protected": func(h *history) {
			b := empty(h, minute, "10%")
			b.nodes[1].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			h.put(b.nodes[1])
			h.wait(2 * time.Hour)
		},
		"others go first": func(h *history) {
			b := empty(h, minute, "10%")
			h.wait(50 * time.Minute)
			b.disrupt("Empty", 0)
			h.wait(50 * time.Minute)
		},
		"a pod comes": func(h *history) {
			empty(h, minute, "10%")
			h.wait(50 * time.Minute)
			h.put(podOn("q", "a1"))
			h.wait(2 * time.Hour)
		},
	})
}
