// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

const gpu, fpga = "nvidia.com/gpu", "example.com/fpga"

// gpuCluster is a Mirror of a cluster with the instance types d4, which attaches 8 disks, and nc4
// with a GPU.
func gpuCluster() *Mirror {
	m := NewMirror(nil)
	m.SetPool(nastyPool("all"))
	m.SetCatalog("default", gpuTypes(nil), nil)
	m.SetPVC(boundClaim("data", "pv"))
	m.SetVolume(csiVolume("pv"))
	return m
}

// gpuTypes are its instance types, with more resources of each.
func gpuTypes(more quantity.Amounts) []offering.InstanceType {
	of := func(name string, price offering.Price, capacity quantity.Amounts) offering.InstanceType {
		for _, a := range []quantity.Amounts{{"cpu": 4000, "memory": 16 << 30, "pods": 110, attachDisks: 8}, more} {
			capacity = capacity.Add(a)
		}
		return offering.InstanceType{Name: name, Capacity: capacity, Offerings: []offering.Offering{{Zone: "1", CapacityType: offering.OnDemand, Price: price}}}
	}
	return []offering.InstanceType{of("d4", 2e8, nil), of("nc4", 9e8, quantity.Amounts{gpu: 1})}
}

// asking is a pending pod that requests one of each resource.
func asking(name string, resources ...string) *corev1.Pod {
	p := pendingPod(name)
	for _, r := range resources {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(r)] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	return p
}

// device is a node of another provisioner with one device of each kind.
func device(name string, kinds ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = resources("cpu", "64", "memory", "64Gi", "pods", "200")
	for _, kind := range kinds {
		n.Status.Allocatable[corev1.ResourceName(kind)] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// outcomes are the result for each pod: the instance type that is launched for it, the node where
// it fits, or why it is unplaced.
func outcomes(m *Mirror) map[string]string {
	out := map[string]string{}
	m.View(func(snapshot *cluster.Snapshot) {
		plan := schedule.Solve(snapshot)
		for _, l := range plan.Launches {
			for _, p := range l.Pods {
				out[p.Name] = l.Offerings[0].Type
			}
		}
		for _, n := range plan.Nominations {
			for _, p := range n.Pods {
				out[p.Name] = n.Node
			}
		}
		for _, u := range plan.Unplaced {
			for _, p := range u.Pods {
				out[p.Name] = why(u)
			}
		}
	})
	return out
}

// why is the last cut of the first pool, or the whole refusal.
func why(u schedule.Unplaced) string {
	if len(u.Funnels) == 0 {
		return string(u.Because) + ": " + u.Detail
	}
	cut, _ := u.Funnels[0].Last()
	return string(cut.By) + ": " + cut.Detail
}

func expectOutcomes(t *testing.T, m *Mirror, when string, want map[string]string) {
	t.Helper()
	got := outcomes(m)
	for name, outcome := range want {
		if got[name] != outcome {
			t.Errorf("%s: pod %s: %q, want %q", when, name, got[name], outcome)
		}
	}
}

// Pods with resources that no node or type offers keep no other pod from its node, however many
// they are, and get the names of those resources.
//
// Rule POD-7.
func TestInventedResourcesKeepNoPodWaiting(t *testing.T) {
	m := gpuCluster()
	served := map[string]string{}
	for i := range 40 {
		invented := fmt.Sprint("example.com/invented-", i)
		p := asking(fmt.Sprint("odd-", i), invented, invented+"-too")
		m.SetPod(p, false)
		nothing := fmt.Sprintf("requests 1 of %s, 1 of %s-too, which no instance type and no node offers", invented, invented)
		expectOutcomes(t, m, "alone", map[string]string{p.Name: string(reason.Resources) + ": " + nothing})
		if i%4 == 0 {
			served[p.Name] = string(reason.Resources) + ": " + nothing
			continue
		}
		m.RemovePod(p)
	}
	m.SetPod(asking("trainer", gpu), false)
	m.SetPod(mounting("database", "data"), false)
	served["trainer"], served["database"] = "nc4", "nc4"
	expectOutcomes(t, m, "after forty invented resources", served)
}

// A thousand pods with resources that exist nowhere, all at once, and after they are deleted.
//
// Rule POD-7.
func TestThousandInventedResources(t *testing.T) {
	m := gpuCluster()
	const invented = 1000
	for i := range invented {
		m.SetPod(asking(fmt.Sprint("odd-", i), fmt.Sprint("example.com/invented-", i)), true)
	}
	m.SetPod(asking("trainer", gpu), false)
	m.SetPod(mounting("database", "data"), false)
	want := map[string]string{"trainer": "nc4", "database": "nc4", "odd-999": "Resources: requests 1 of example.com/invented-999, which no instance type and no node offers"}
	expectOutcomes(t, m, "a thousand alive", want)
	for i := range invented {
		m.RemovePod(asking(fmt.Sprint("odd-", i)))
	}
	delete(want, "odd-999")
	expectOutcomes(t, m, "a thousand deleted", want)
}

// The words of a plan name resources in an order of their own, whichever pod was seen first.
//
// Rule PLAN-10.
func TestWordsDoNotDependOnEventOrder(t *testing.T) {
	pods := []*corev1.Pod{
		asking("a", "example.com/a", "example.com/b"), asking("b", "example.com/c", "example.com/a", gpu),
		asking("c", "example.com/b", "example.com/c"), asking("d", "example.com/c", "example.com/d", "example.com/a"),
	}
	var want schedule.Plan
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 3))
		m := gpuCluster()
		shuffled := slices.Clone(pods)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, p := range shuffled {
			if m.SetPod(p, false); random.IntN(2) == 0 {
				planOf(m)
			}
		}
		got := planOf(m)
		if seed == 0 {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: another order, other words: %s", seed, diff)
		}
	}
}

// A pod that waits for a resource gets a node once a node or instance type offers the resource,
// and waits again when none does, with the same message as before.
//
// Rule POD-8.
func TestResourceIsOfferedLater(t *testing.T) {
	m := gpuCluster()
	m.SetPod(asking("designer", fpga), false)
	m.SetPod(asking("trainer", gpu), false)
	waits := "Resources: requests 1 of example.com/fpga, which no instance type and no node offers"
	has := device("fpga-1", fpga)
	idle := has.DeepCopy() // the device plugin is down: the kubelet still counts its devices
	idle.Status.Allocatable[fpga] = *resource.NewQuantity(0, resource.DecimalSI)
	bare := device("fpga-1")
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"nothing offers it", func() {}, waits},
		{"the catalog does", func() { m.SetCatalog("default", gpuTypes(quantity.Amounts{fpga: 2}), nil) }, "nc4"},
		{"not any more", func() { m.SetCatalog("default", gpuTypes(nil), nil) }, waits},
		{"a node does", func() { m.SetNode(has) }, "fpga-1"},
		{"its device plugin is down", func() { m.SetNode(idle) }, "Resources: requests 1 of example.com/fpga, the largest instance type has 0"},
		{"and up again", func() { m.SetNode(has) }, "fpga-1"},
		{"the node has lost its device", func() { m.SetNode(bare) }, waits},
		{"and has it again", func() { m.SetNode(has) }, "fpga-1"},
		{"the node is gone", func() { m.RemoveNode(has) }, waits},
	} {
		step.change()
		expectOutcomes(t, m, step.name, map[string]string{"designer": step.want, "trainer": "nc4"})
	}
}

// A limit that a CSI driver begins to report holds for pods that waited before.
//
// Rule POD-8.
func TestAttachLimitIsReportedLater(t *testing.T) {
	m := NewMirror(nil)
	m.SetPVC(boundClaim("data", "pv"))
	m.SetVolume(csiVolume("pv"))
	m.SetPod(mounting("database", "data"), false)
	m.SetNode(device("n1"))
	expectOutcomes(t, m, "no limit is known", map[string]string{"database": "n1"})
	m.SetCSINode(reporting("n1", new(int32(0))))
	expectOutcomes(t, m, "the node attaches nothing", map[string]string{"database": "NoNodePools: there is no NodePool to launch nodes from"})
	m.SetCSINode(reporting("n1", new(int32(1))))
	expectOutcomes(t, m, "the node attaches one", map[string]string{"database": "n1"})
	m.SetCSINode(reporting("n1", nil))
	expectOutcomes(t, m, "the limit is lifted", map[string]string{"database": "n1"})
}

// In a long run many kinds of devices are added and removed, one node after the other. Each is
// planned for while it exists, and the first ones still are.
//
// Rule POD-9.
func TestManyKindsOfDevicesComeAndGo(t *testing.T) {
	m := gpuCluster()
	m.SetPod(asking("trainer", gpu), false)
	m.SetPod(mounting("database", "data"), false)
	for i := range 60 {
		kind := fmt.Sprintf("example.com/mig-%dg", i)
		node, pod := device("mig", kind), asking("tenant", kind)
		m.SetNode(node)
		m.SetPod(pod, false)
		expectOutcomes(t, m, kind, map[string]string{"tenant": "mig"})
		m.RemovePod(pod)
		m.RemoveNode(node)
	}
	expectOutcomes(t, m, "in the end", map[string]string{"trainer": "nc4", "database": "nc4"})
}

// When more resources are offered and requested than decisions can count, attach limits and
// resources of instance types go before those that only nodes offer, and these by name: the
// order of events does not matter. The others are reported, and are planned for as soon as
// there is a position.
//
// Rule POD-10.
func TestMoreResourcesThanPositions(t *testing.T) {
	const kinds = 40
	left := quantity.Extended - 2 // besides GPUs and disks
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := NewMirror(nil)
		want := map[string]string{"trainer": "nc4", "database": "nc4"}
		events := []func(){
			func() { m.SetPool(nastyPool("all")) },
			func() { m.SetCatalog("default", gpuTypes(nil), nil) },
			func() { m.SetPVC(boundClaim("data", "pv")); m.SetVolume(csiVolume("pv")) },
			func() { m.SetPod(asking("trainer", gpu), false) },
			func() { m.SetPod(mounting("database", "data"), false) },
		}
		for i := range kinds {
			kind, name := fmt.Sprintf("a.example.com/kind-%02d", i), fmt.Sprintf("kind-%02d", i)
			events = append(events, func() { m.SetNode(device("node-"+name, kind)) }, func() { m.SetPod(asking(name, kind), false) })
			if want[name] = "node-" + name; i >= left {
				want[name] = fmt.Sprintf("Resources: requests 1 of %s, for which no room is planned: more than %d extended resources are offered and asked for at the same time, and others go first", kind, quantity.Extended)
			}
		}
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, happens := range events {
			if happens(); random.IntN(4) == 0 {
				outcomes(m)
			}
		}
		got := outcomes(m)
		delete(want, "trainer") // a GPU node, whichever pods share it
		delete(want, "database")
		for name, outcome := range want {
			if got[name] != outcome {
				t.Fatalf("seed %d: pod %s: %q, want %q", seed, name, got[name], outcome)
			}
		}
		for _, name := range []string{"trainer", "database"} {
			if strings.Contains(got[name], ":") {
				t.Fatalf("seed %d: %s has no home: %s", seed, name, got[name])
			}
		}
		m.RemovePod(asking("kind-00"))
		next := fmt.Sprintf("kind-%02d", left)
		if got := outcomes(m); got[next] != "node-"+next {
			t.Fatalf("seed %d: with one resource fewer, pod %s: %q", seed, next, got[next])
		}
	}
}

// A limit of a NodePool on a resource holds whether or not pods ask for the resource, and
// whatever else is asked for.
//
// Rule LIMIT-2, Rule LIMIT-1.
func TestLimitsOnExtendedResources(t *testing.T) {
	limited := func(pairs ...string) *karpv1.NodePool {
		p := nastyPool("all")
		p.Spec.Limits = karpv1.Limits(resources(pairs...))
		return p
	}
	m := gpuCluster()
	m.SetCatalog("default", gpuTypes(nil)[1:], nil) // every type has a GPU
	for i := range 40 {
		m.SetPod(asking(fmt.Sprint("odd-", i), fmt.Sprint("example.com/invented-", i)), false)
	}
	m.SetPod(asking("plain"), false)
	m.SetPool(limited(gpu, "0", "example.com/nobody-has-it", "0"))
	expectOutcomes(t, m, "no GPUs are allowed", map[string]string{"plain": "Limits: limits.nvidia.com/gpu is 0, 0 of it left"})
	m.SetPool(limited(gpu, "1"))
	expectOutcomes(t, m, "one GPU is allowed", map[string]string{"plain": "nc4"})
	m.SetPool(limited("example.com/nobody-has-it", "-1"))
	expectOutcomes(t, m, "a limit below nothing", map[string]string{"plain": "Limits: limits.example.com/nobody-has-it is -1, 0 of it left"})

	// More resources are offered and limited than can be counted: those beyond are not launched.
	many, limits := quantity.Amounts{}, []string{}
	for i := range 40 {
		name := fmt.Sprintf("a.example.com/kind-%02d", i)
		many[name], limits = 1, append(limits, name, "5")
	}
	m.SetCatalog("default", gpuTypes(many)[:1], nil)
	m.SetPool(limited(limits...))
	last := fmt.Sprintf("a.example.com/kind-%02d", quantity.Extended)
	expectOutcomes(t, m, "too many limits", map[string]string{"plain": fmt.Sprintf(
		"Limits: limits.%s is 5, 5 of it left, but more than %d extended resources are offered and asked for at the same time, and others are counted first", last, quantity.Extended)})
}

// A Mirror that has seen a long history makes exactly the plan of one that was shown only the end
// of it.
//
// Rule PLAN-10, Rule POD-9.
func TestOnlyTheEndStateOfResourcesCounts(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 2))
		m, kept, catalog := gpuCluster(), map[string]func(*Mirror){}, gpuTypes(nil)
		for range 300 {
			i, kind := random.IntN(12), fmt.Sprintf("example.com/kind-%d", random.IntN(30))
			node, pod := device(fmt.Sprint("n", i), kind, gpu), asking(fmt.Sprint("p", i), kind, fmt.Sprintf("example.com/kind-%d", random.IntN(30)))
			if random.IntN(3) == 0 {
				pod = boundTo(pod, fmt.Sprint("n", random.IntN(12)))
			}
			switch random.IntN(8) {
			case 0, 1:
				m.SetNode(node)
				kept[node.Name] = func(m *Mirror) { m.SetNode(node) }
			case 2:
				m.RemoveNode(node)
				delete(kept, node.Name)
			case 3, 4:
				m.SetPod(pod, true)
				kept[pod.Name] = func(m *Mirror) { m.SetPod(pod, true) }
			case 5:
				m.RemovePod(pod)
				delete(kept, pod.Name)
			case 6:
				catalog = gpuTypes(quantity.Amounts{kind: int64(random.IntN(3))})
				m.SetCatalog("default", catalog, nil)
			case 7:
				outcomes(m)
			}
		}
		fresh := gpuCluster()
		fresh.SetCatalog("default", catalog, nil)
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			kept[name](fresh)
		}
		if diff := cmp.Diff(planOf(fresh), planOf(m)); diff != "" {
			t.Fatalf("seed %d: a long life changes the plan: %s", seed, diff)
		}
	}
}

func planOf(m *Mirror) (plan schedule.Plan) {
	m.View(func(snapshot *cluster.Snapshot) { plan = schedule.Solve(snapshot) })
	return plan
}
