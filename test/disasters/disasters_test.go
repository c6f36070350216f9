// SPDX-License-Identifier: Apache-2.0

package disasters

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// world is a cluster in which each pod fills a node.
type world struct{ *controllertest.Env }

func newWorld(t *testing.T) world {
	w := world{controllertest.New(t, memory.Options{Create: 30 * time.Second})}
	pool := controllertest.Pool("web", "30s")
	pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("20")}
	w.Create(pool)
	return w
}

// wants creates pending pods.
func (w world) wants(names ...string) {
	for _, name := range names {
		w.Create(controllertest.Pod(name, "31", "1Gi"))
	}
}

// live is a step in which kubelets register their nodes and the scheduler binds pods to ready ones.
func (w world) live(n int) {
	w.T.Helper()
	for range n {
		w.Step()
		if w.Faults.Outage.Load() {
			continue
		}
		w.silence()
		w.Join()
		w.schedule()
	}
}

// silence reports nodes without a VM as not ready, as the controller of node leases does.
func (w world) silence() {
	exist := w.Cloud.ProviderIDs()
	for _, n := range w.Nodes() {
		if !slices.Contains(exist, n.Spec.ProviderID) && n.Status.Conditions[0].Status == corev1.ConditionTrue {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			if err := w.API.Status().Update(w.T.Context(), &n); err != nil {
				w.T.Fatal(err)
			}
		}
	}
}

// schedule binds each pending pod to a ready node without one.
func (w world) schedule() {
	taken := map[string]bool{}
	for _, p := range w.Pods() {
		taken[p.Spec.NodeName] = true
	}
	for _, p := range w.Pods() {
		for _, n := range w.Nodes() {
			if p.Spec.NodeName == "" && !taken[n.Name] && n.DeletionTimestamp == nil && n.Labels[karpv1.NodeInitializedLabelKey] == "true" {
				w.Bind(p.Name, n.Name)
				taken[n.Name] = true
				break
			}
		}
	}
}

// collect runs the garbage collector, every 30 s for a while, as the cluster lives.
func (w world) collect(rounds int) {
	w.T.Helper()
	for range rounds {
		if err := w.Collector.Collect(w.T.Context()); err != nil {
			w.T.Log("retried:", err)
		}
		w.live(30)
	}
}

// expect checks that each pod has a node, each NodeClaim a VM, and each VM a NodeClaim.
func (w world) expect(what string, vms int) {
	w.T.Helper()
	var have []string
	for _, c := range w.Claims() {
		have = append(have, c.Status.ProviderID)
	}
	exist := w.Cloud.ProviderIDs()
	slices.Sort(have)
	slices.Sort(exist)
	if !slices.Equal(have, exist) || len(exist) != vms {
		w.T.Errorf("%s: NodeClaims have the VMs %q, and there are %q; want %d", what, have, exist, vms)
	}
	for _, p := range w.Pods() {
		if p.Spec.NodeName == "" {
			w.T.Errorf("%s: pod %s has no node", what, p.Name)
		}
	}
}

// While the API server is away for ten minutes, in the middle of launches and of a decision, no VM is
// launched twice and none is deleted. Afterwards everything goes on.
//
// Rule OUTAGE-1.
func TestOutageOfTheAPIServer(t *testing.T) {
	for launched := range 8 { // steps before the outage: undecided, decided, launched, registered
		t.Run(fmt.Sprint("after ", launched, " steps"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wants("old-1", "old-2")
				w.live(90)
				w.expect("before", 2)
				before := w.Cloud.ProviderIDs()
				w.wants("a", "b", "c")
				w.live([]int{0, 1, 2, 3, 20, 31, 33, 36}[launched])
				w.Faults.Outage.Store(true)
				for range 20 {
					w.live(30)
					_ = w.Collector.Collect(t.Context()) // it has nobody to ask
					if n := len(w.Cloud.ProviderIDs()); n > 5 {
						t.Fatalf("%d VMs for 5 pods during the outage", n)
					}
				}
				for _, id := range before {
					if !slices.Contains(w.Cloud.ProviderIDs(), id) {
						t.Errorf("VM %s was deleted during the outage", id)
					}
				}
				w.Faults.Outage.Store(false)
				w.collect(5)
				w.expect("in the end", 5)
				for _, id := range before {
					if !slices.Contains(w.Cloud.ProviderIDs(), id) {
						t.Errorf("VM %s was deleted after the outage", id)
					}
				}
			})
		})
	}
}

// After etcd was restored to an earlier state, whether karve ran on or was restarted, the VMs that the
// backup knows are kept. A NodeClaim whose VM is gone goes, and so does a VM that the backup does not
// know and that runs nothing.
//
// Rule OUTAGE-2.
func TestRestoredEtcd(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("karve is restarted: ", restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wants("a", "b", "c", "goes")
				w.live(90)
				w.expect("before the backup", 4)
				kept := map[string]bool{}
				gone := controllertest.Get(w.Env, controllertest.Pod("goes", "1", "1Gi"), "goes")
				for _, n := range w.Nodes() {
					if n.Name != gone.Spec.NodeName {
						kept[n.Spec.ProviderID] = true
					}
				}
				restore := w.Backup()

				if err := w.API.Delete(t.Context(), gone, client.GracePeriodSeconds(0)); err != nil {
					t.Fatal(err)
				}
				w.live(120) // its empty node goes
				w.wants("later")
				w.live(90)
				w.expect("before the restore", 4)

				restore()
				if restarts {
					w.Restart()
				}
				w.collect(60)
				for id := range kept {
					if !slices.Contains(w.Cloud.ProviderIDs(), id) {
						t.Errorf("VM %s is gone, which the backup knows", id)
					}
				}
				w.expect("in the end", 3)
			})
		})
	}
}

// Two processes in one cluster without an election, as two installations are: every VM has its NodeClaim
// and every NodeClaim its VM; what both launched for the same pods is removed as empty.
//
// Rule OUTAGE-3.
func TestTwoProcessesWithoutElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.Beside()
		other.Pace, w.Pace = 500*time.Millisecond, 500*time.Millisecond
		for i := range 6 {
			w.wants(fmt.Sprint("p", i))
			other.Feed() // both decide on what they saw before the other acted
			for range 60 {
				other.Step()
				w.live(1)
				if n := len(w.Claims()); n > 20 {
					t.Fatalf("%d NodeClaims: limits.nodes is 20", n)
				}
			}
		}
		for range 600 {
			other.Step()
			w.live(1)
		}
		w.expect("in the end", 6)
	})
}
