// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestReplay lives through two hours of a small drawn record: no pod is lost, kube-scheduler
// accepts every placement (or Replay fails), no bill is below the bound, and karve does the same
// again. Upstream, whose choices differ from run to run, lives through some of it.
func TestReplay(t *testing.T) {
	r, s := drawn(t), empty(t)
	of := Selection{Scale: 1, Seed: 1}
	const whenUnderutilized = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	for name, c := range map[string]struct {
		disruption karpv1.Disruption
		upstream   bool
	}{
		"WhenEmpty":                   {Disruption(karpv1.ConsolidationPolicyWhenEmpty, 0), true},
		"WhenEmptyOrUnderutilized":    {Disruption(whenUnderutilized, 0), true},
		"Balanced":                    {Disruption(karpv1.ConsolidationPolicyBalanced, 0), false},
		"consolidateAfter 20 minutes": {Disruption(whenUnderutilized, 4*Bin), false},
	} {
		t.Run(name, func(t *testing.T) {
			ours := replayKarve(t, s, r, of, c.disruption)
			if !c.upstream {
				return
			}
			theirs, err := Upstream(t.Context(), s, r, of, c.disruption, nil)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "upstream", theirs)
			if theirs.Bound != ours.Bound {
				t.Errorf("the bound is %v and %v", ours.Bound, theirs.Bound)
			}
		})
	}
}

// TestReplayOfAzure lives through the first hours of a thousandth of the real record, where
// KARVE_TRACE names its folder.
func TestReplayOfAzure(t *testing.T) {
	folder := os.Getenv("KARVE_TRACE")
	if folder == "" {
		t.Skip("KARVE_TRACE does not name the folder of the trace")
	}
	r, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	s, of := empty(t), Selection{Scale: 1000, Bins: 144, Seed: 1}
	d := Disruption(karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, 0)
	replayKarve(t, s, r, of, d)
	theirs, err := Upstream(t.Context(), s, r, of, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "upstream", theirs)
}

func empty(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// replayKarve has karve live through the record twice.
func replayKarve(t *testing.T, s *scenario.Scenario, r *Record, of Selection, d karpv1.Disruption) Outcome {
	t.Helper()
	first, err := Karve(s, r, of, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Karve(s, r, of, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first.timeless(), second.timeless()) {
		t.Errorf("karve does %+v, and then %+v", first, second)
	}
	check(t, "karve", first)
	return first
}

func check(t *testing.T, side string, o Outcome) {
	t.Helper()
	t.Logf("%s: %.3f USD of at least %.3f, %d evictions, decided in %v", side, o.USD, o.Bound, o.Evictions, o.CPU)
	if o.Bound <= 0 || o.USD < o.Bound {
		t.Errorf("%s pays %.3f USD, the bound is %.3f", side, o.USD, o.Bound)
	}
	if o.Pending != 0 || o.PeakNodes == 0 || o.Launched < o.PeakNodes {
		t.Errorf("%s: pods waited %v, %d nodes launched, %d at once", side, o.Pending, o.Launched, o.PeakNodes)
	}
}

// timeless leaves out what differs between two runs that decide the same.
func (o Outcome) timeless() Outcome {
	o.CPU, o.Longest = 0, 0
	return o
}

// drawn reads a record of two hours that is drawn and written as the real one is.
func drawn(t *testing.T) *Record {
	t.Helper()
	const bins = 24
	random := rand.New(rand.NewPCG(1, 2))
	var arrivals, lifetimes strings.Builder
	for i := range bins {
		var a, l []string
		for range random.IntN(2) {
			for range 1 + random.IntN(6) {
				a = append(a, []string{"b", "g", "m"}[random.IntN(3)])
				l = append(l, []string{"U0", "U3", "U6", "U13", "C13"}[random.IntN(5)])
			}
			a, l = append(a, "|"), append(l, "|")
		}
		if len(a) > 0 {
			fmt.Fprintf(&arrivals, "%d %s\n", 600+300*i, strings.Join(a, ","))
			fmt.Fprintf(&lifetimes, "%d %s\n", 600+300*i, strings.Join(l, ","))
		}
	}
	var intervals strings.Builder
	for bin := range 24 {
		fmt.Fprintf(&intervals, "%d %d\n", 300*bin, min(bin, 13))
	}
	r, err := Read(written(t, arrivals.String(), lifetimes.String(), "1,1.75 b\n2,3.5 g\n8,14 m\n", intervals.String()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// written writes the files of a record.
func written(t *testing.T, arrivals, lifetimes, flavours, intervals string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{arrivalsFile: arrivals, lifetimesFile: lifetimes, flavoursFile: flavours, intervalsFile: intervals} {
		if strings.HasSuffix(name, ".gz") {
			var b strings.Builder
			z := gzip.NewWriter(&b)
			if _, err := z.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			text = b.String()
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestRead(t *testing.T) {
	const flavours, intervals = "1,1.75 b\n2,3.5 g\n", "0 0\n300 1\n600 2\n900 2\n1200 2\n"
	r, err := Read(written(t, "900 b,g,|,g,|\n1500 b,|\n", "900 U0,U2,|,C2,|\n1500 U1,|\n", flavours, intervals))
	if err != nil {
		t.Fatal(err)
	}
	b := quantity.Amounts{"cpu": 1000, "memory": 7 << 28}
	g := quantity.Amounts{"cpu": 2000, "memory": 7 << 29}
	want := []Batch{
		{Bin: 0, VMs: []VM{{b, 1, 1}, {g, 2, 4}}},
		{Bin: 0, VMs: []VM{{g, Forever, Forever}}},
		{Bin: 2, VMs: []VM{{b, 1, 1}}},
	}
	if fmt.Sprint(r.Batches) != fmt.Sprint(want) || r.Bins != 3 {
		t.Errorf("%d bins: %v, want %v", r.Bins, r.Batches, want)
	}
	for wanted, folder := range map[string]string{
		"folder of the trace is not known": "",
		"no such file":                     t.TempDir(),
		"3 VMs have 2 lifetimes":           written(t, "0 b,b,|\n", "0 U0,|\n", flavours, intervals),
		`size "z" is not in`:               written(t, "0 z,|\n", "0 U0,|\n", flavours, intervals),
		`lifetime "U9" is not in`:          written(t, "0 b,|\n", "0 U9,|\n", flavours, intervals),
		"has 2 lines":                      written(t, "0 b,|\n300 b,|\n", "0 U0,|\n", flavours, intervals),
	} {
		if _, err := Read(folder); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v", wanted, err)
		}
	}
}

// TestScale: a smaller selection has Deployments of the larger one, with the same rules.
func TestScale(t *testing.T) {
	r := drawn(t)
	whole, err := r.Workload(Selection{Scale: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	third, err := r.Workload(Selection{Scale: 3, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if third.Pods() == 0 || third.Pods() >= whole.Pods() {
		t.Fatalf("%d pods of %d", third.Pods(), whole.Pods())
	}
	for i, b := range third.bins {
		for _, p := range b.arriving {
			found := slices.ContainsFunc(whole.bins[i].arriving, func(q *corev1.Pod) bool { return apiequality.Semantic.DeepEqual(p, q) })
			if !found {
				t.Fatalf("pod %s is not in the whole", p.Name)
			}
		}
	}
}

// TestOverfullNodesAreRejected: a replay ends when pods are where kube-scheduler would not put
// them.
func TestOverfullNodesAreRejected(t *testing.T) {
	s := empty(t).Disrupted(Disruption(karpv1.ConsolidationPolicyWhenEmpty, 0))
	w, err := drawn(t).Workload(Selection{Scale: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Replay(s, w, &crammer{}, nil)
	if err == nil || !strings.Contains(err.Error(), "where kube-scheduler would not put them") {
		t.Errorf("all pods that wait on two cores: %v", err)
	}
}

// crammer launches one small node for all pods that wait.
type crammer struct{ waiting []types.UID }

func (c *crammer) At(time.Time) {}

func (c *crammer) Observe(d fleet.Delta) error {
	for _, p := range d.Arrived {
		c.waiting = append(c.waiting, p.UID)
	}
	return nil
}

func (c *crammer) Provision() (fleet.Change, error) {
	small := scenario.Instance{Pool: "general", Type: "Standard_D2s_v5", Zone: "eastus-1", CapacityType: offering.OnDemand}
	return fleet.Change{Launches: []fleet.Launch{{Instance: small, Pods: c.waiting}}}, nil
}

func (c *crammer) Next() (consolidate.Round, error) { return consolidate.Round{Done: true}, nil }

// TestBound: the bound on one pod is above nothing and not above a node that takes it, and
// nothing is left of it when the pod is gone.
func TestBound(t *testing.T) {
	s := empty(t)
	b, err := newBound(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Gi"),
	}}}}
	b.add(p)
	price := b.price()
	whole, err := s.Price(scenario.Instance{Type: "Standard_F2s_v2", Zone: "eastus-1", CapacityType: offering.OnDemand})
	if err != nil {
		t.Fatal(err)
	}
	if price <= 0 || price > whole.USD() {
		t.Errorf("the bound is %v $/h, a node costs %v", price, whole.USD())
	}
	for range 99 {
		b.add(p)
	}
	if hundred := b.price(); hundred < 40*whole.USD()/2 || hundred > 100*whole.USD() {
		t.Errorf("a hundred pods cost %v $/h at least, one node for each %v", hundred, 100*whole.USD())
	}
	for range 100 {
		b.remove(p)
	}
	if got := b.price(); got != 0 {
		t.Errorf("no pods cost %v $/h", got)
	}
}
