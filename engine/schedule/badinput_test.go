// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestBadInput: input that makes no sense gets a reason, never a panic or a node; input that
// is merely odd is planned for.
func TestBadInput(t *testing.T) {
	const served, refused = true, false
	anywhere := cluster.Selector{NamespaceLabels: cluster.Term{}}
	request := func(name string, n int64) func(*enginetest.Script) {
		return func(s *enginetest.Script) { s.Pods[0].Requests[name] = n }
	}
	pod := func(edit func(*cluster.Pod)) func(*enginetest.Script) {
		return func(s *enginetest.Script) { edit(&s.Pods[0]) }
	}
	for _, tc := range []struct {
		name  string
		spoil func(*enginetest.Script)
		want  bool
	}{
		{"nothing wrong", func(*enginetest.Script) {}, served},
		{"an exabyte", request(quantity.NameMemory, 1e18), refused},
		{"a quadrillion cores", request(quantity.NameCPU, 1e18), refused},
		{"more than fits a number", request(quantity.NameCPU, math.MaxInt64), refused},
		{"less than no memory", request(quantity.NameMemory, -1), served},
		{"less than no cores", request(quantity.NameCPU, math.MinInt64), served},
		{"an unheard-of resource", request("example.com/unicorn", 1), refused},
		{"ten thousand tolerations", pod(func(p *cluster.Pod) {
			for i := range 10000 {
				p.Tolerations = append(p.Tolerations, cluster.Toleration{Key: fmt.Sprint("k", i), Operator: "Exists"})
			}
		}), served},
		{"a selector that is not there", pod(func(p *cluster.Pod) {
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, Selector: cluster.Selector{Nothing: true}}}
		}), served},
		{"apart from no pod", pod(func(p *cluster.Pod) {
			p.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelZone, Selector: cluster.Selector{Nothing: true}}}
		}), served},
		{"near no pod", pod(func(p *cluster.Pod) {
			p.Affinity = []cluster.PodAffinityTerm{{Key: cluster.LabelZone, Selector: cluster.Selector{Nothing: true}}}
		}), refused},
		{"near no namespace", pod(func(p *cluster.Pod) { p.Affinity = []cluster.PodAffinityTerm{{Key: cluster.LabelZone}} }), refused},
		{"near no key", pod(func(p *cluster.Pod) { p.Affinity = []cluster.PodAffinityTerm{{Selector: anywhere}} }), refused},
		{"spread over no key", pod(func(p *cluster.Pod) { p.Spreads = []cluster.TopologySpreadConstraint{{MaxSkew: 1, Selector: anywhere}} }), refused},
		{"no skew", pod(func(p *cluster.Pod) {
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, Selector: anywhere}}
		}), refused},
		{"less than no skew", pod(func(p *cluster.Pod) {
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: -1, Selector: anywhere}}
		}), refused},
		{"contradiction", pod(func(p *cluster.Pod) {
			p.Required = cluster.Term{{Key: "a", Operator: constraint.Exists}, {Key: "a", Operator: constraint.DoesNotExist}}
		}), refused},
		{"two zones at once", pod(func(p *cluster.Pod) {
			p.Required = cluster.Term{{Key: cluster.LabelZone, Operator: constraint.In, Values: []string{"1"}}, {Key: cluster.LabelZone, Operator: constraint.In, Values: []string{"2"}}}
		}), refused},
		{"more than the most", pod(func(p *cluster.Pod) {
			p.Required = cluster.Term{{Key: "a", Operator: constraint.Gt, Values: []string{"9223372036854775807"}}}
		}), refused},
		{"a hundred thousand alternatives", pod(func(p *cluster.Pod) {
			p.AnyOf = make([]cluster.Term, 100_000)
		}), refused},
		{"a skew beyond all pods", pod(func(p *cluster.Pod) {
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: math.MaxInt32, MinDomains: math.MaxInt32, Selector: anywhere}}
		}), served},
		{"no value will do", pod(func(p *cluster.Pod) { p.Required = cluster.Term{{Key: cluster.LabelZone, Operator: constraint.In}} }), refused},
		{"a requirement without a key", pod(func(p *cluster.Pod) { p.Required = cluster.Term{{Operator: constraint.Exists}} }), refused},
		{"an unknown operator", pod(func(p *cluster.Pod) { p.AnyOf = []cluster.Term{{{Key: "a", Operator: "Near"}}} }), refused},
		{"a bound that is no number", pod(func(p *cluster.Pod) {
			p.Required = cluster.Term{{Key: "a", Operator: constraint.Gt, Values: []string{"many"}}}
		}), refused},
		{"no port", pod(func(p *cluster.Pod) { p.Ports = []cluster.Port{{Protocol: "TCP"}} }), refused},
		{"less than no port", pod(func(p *cluster.Pod) { p.Ports = []cluster.Port{{Protocol: "TCP", Port: -1}} }), refused},
		{"a port beyond the last", pod(func(p *cluster.Pod) { p.Ports = []cluster.Port{{Protocol: "TCP", Port: 70000}} }), refused},
		{"the last port", pod(func(p *cluster.Pod) { p.Ports = []cluster.Port{{Protocol: "TCP", Port: 65535}} }), served},
		{"a weight out of range", pod(func(p *cluster.Pod) {
			p.Preferred = []cluster.PreferredSchedulingTerm{{Weight: 101}, {Weight: -1, Term: cluster.Term{{Key: "a", Operator: constraint.Exists}}}}
		}), served},
		{"a volume that fits nowhere", pod(func(p *cluster.Pod) {
			p.Volumes = []cluster.Volume{{ID: "v", AnyOf: []cluster.Term{{{Key: cluster.LabelZone, Operator: constraint.In, Values: []string{"9"}}}}}}
		}), refused},
		{"an offering with a negative price", func(s *enginetest.Script) {
			for i := range s.Types[0].Offerings {
				s.Types[0].Offerings[i].Price = -1
			}
		}, refused},
		{"a pool that contradicts itself", func(s *enginetest.Script) {
			s.Pools[0].Requirements = cluster.Term{{Key: "a", Operator: constraint.Exists}, {Key: "a", Operator: constraint.DoesNotExist}}
		}, refused},
		{"a limit below nothing", func(s *enginetest.Script) {
			s.Pools[0].Limits = quantity.Amounts{quantity.NameCPU: -1, quantity.NameNodes: -1}
		}, refused},
		{"no instance types", func(s *enginetest.Script) { s.Types = nil }, refused},
		{"a type without offerings", func(s *enginetest.Script) { s.Types[0].Offerings = nil }, refused},
		{"a pool that wants nothing there is", func(s *enginetest.Script) {
			s.Pools[0].Requirements = cluster.Term{{Key: cluster.LabelInstanceType, Operator: constraint.In, Values: []string{"none"}}}
		}, refused},
		{"a pool that cannot be read", func(s *enginetest.Script) { s.Pools[0].Requirements = cluster.Term{{Key: "a", Operator: "Near"}} }, refused},
		{"no pool", func(s *enginetest.Script) { s.Pools = nil }, refused},
		{"overhead larger than the node", func(s *enginetest.Script) { s.Types[0].Overhead = quantity.Amounts{quantity.NameCPU: 1e18} }, refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse("type D4 cpu=4 mem=16Gi price=0.20 zones=1,2\npool all\npod w cpu=1 label:app=w")
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(script)
			plan := schedule.Solve(script.Snapshot())
			accountedFor(t, script, plan)
			if got := len(plan.Launches) > 0; got != tc.want {
				t.Errorf("served: %v, want %v\n%s", got, tc.want, enginetest.Print(plan))
			}
		})
	}
}

// TestBadPrices: an invalid price never enters a catalog.
func TestBadPrices(t *testing.T) {
	for _, usd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.01, 1e10} {
		if p, err := offering.USDPerHour(usd); err == nil {
			t.Errorf("%v USD/h is taken for %s", usd, p)
		}
	}
}
