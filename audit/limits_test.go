// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// S5: NodeClaims of a NodePool never exceed its limits.
func TestLimits(t *testing.T) {
	run(t, "S5", map[string]func(h *history){
		"as many nodes as allowed": func(h *history) {
			h.put(poolOf("a", "nodes=2"), claimOf("a1", "a", "cpu=1"), claimOf("a2", "a", "cpu=1"))
		},
		"one node more [S5]": func(h *history) {
			h.put(poolOf("a", "nodes=2"), claimOf("a1", "a", "cpu=1"), claimOf("a2", "a", "cpu=1"), claimOf("a3", "a", "cpu=1"))
		},
		"of other pools": func(h *history) {
			h.put(poolOf("a", "nodes=1"), poolOf("b", "nodes=1"), claimOf("a1", "a", "cpu=1"), claimOf("b1", "b", "cpu=1"))
		},
		"without limits": func(h *history) {
			h.put(poolOf("a", ""), claimOf("a1", "a", "cpu=1000"))
		},
		"what pods ask for fits": func(h *history) {
			h.put(poolOf("a", "cpu=8"), claimOf("a1", "a", "cpu=7"))
		},
		"what was launched does not [S5]": func(h *history) {
			c := claimOf("a1", "a", "cpu=7")
			h.put(poolOf("a", "cpu=8"), c, launched(c, "cpu=16"))
		},
		"a batch at the limit less one [S5 S5]": func(h *history) { // kubernetes-sigs/karpenter 2915
			h.put(poolOf("a", "cpu=16"))
			for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
				h.put(launched(claimOf(name, "a", "cpu=1"), "cpu=4"))
			}
		},
		"the replaced one counts until it is gone [S5]": func(h *history) {
			old := claimOf("a1", "a", "cpu=1")
			h.put(poolOf("a", "nodes=1"), old)
			h.terminate(old)
			h.put(claimOf("a2", "a", "cpu=1"))
		},
		"after it is gone": func(h *history) {
			old := claimOf("a1", "a", "cpu=1")
			h.put(poolOf("a", "nodes=1"), old)
			h.terminate(old)
			h.remove(old)
			h.put(claimOf("a2", "a", "cpu=1"))
		},
		"a limit lowered below what there is": func(h *history) {
			c := claimOf("a1", "a", "cpu=4")
			h.put(poolOf("a", "cpu=8"), c, launched(c, "cpu=8"))
			h.wait(time.Hour)
			h.put(poolOf("a", "cpu=4"))
			h.put(said(c, "Drifted", metav1.ConditionTrue, "NodePoolDrifted"))
		},
		"and then another NodeClaim [S5]": func(h *history) {
			h.put(poolOf("a", "nodes=2"), claimOf("a1", "a", "cpu=4"))
			h.wait(time.Hour)
			h.put(poolOf("a", "nodes=1"))
			h.wait(time.Hour)
			h.put(claimOf("a2", "a", "cpu=1"))
		},
		"a launch that began before the limit was lowered": func(h *history) {
			c := claimOf("a1", "a", "cpu=4")
			h.put(poolOf("a", "cpu=16"), c)
			h.wait(time.Minute)
			h.put(poolOf("a", "cpu=4"))
			h.wait(time.Minute)
			h.put(launched(c, "cpu=8"))
		},
		"NodeClaims that were there before": func(h *history) { // the watch begins
			for _, name := range []string{"a1", "a2"} {
				c := claimOf(name, "a", "cpu=1")
				c.CreationTimestamp = metav1.NewTime(begin.Add(-time.Hour))
				h.put(c)
			}
			h.put(poolOf("a", "nodes=1"))
		},
	})
}

// Kinds of objects pass each other: by lags, a limit may have been another one.
func TestLimitsLagging(t *testing.T) {
	runWith(t, lagging, "S5", map[string]func(h *history){
		"one node more [S5]": func(h *history) {
			h.put(poolOf("a", "nodes=1"))
			h.wait(time.Minute)
			h.put(claimOf("a1", "a", "cpu=1"), claimOf("a2", "a", "cpu=1"))
			h.wait(11 * time.Second)
		},
		"the pool is seen after its NodeClaims [S5]": func(h *history) {
			h.put(claimOf("a1", "a", "cpu=1"), claimOf("a2", "a", "cpu=1"), poolOf("a", "nodes=1"))
		},
		"the limit was raised, and that is seen later": func(h *history) {
			h.put(poolOf("a", "nodes=1"))
			h.wait(time.Minute)
			h.put(claimOf("a1", "a", "cpu=1"), claimOf("a2", "a", "cpu=1"))
			h.wait(5 * time.Second)
			h.put(poolOf("a", "nodes=2"))
		},
		"the limit was lowered a moment before": func(h *history) {
			h.put(poolOf("a", "nodes=2"), claimOf("a1", "a", "cpu=1"))
			h.wait(time.Minute)
			h.put(poolOf("a", "nodes=1"))
			h.wait(5 * time.Second)
			h.put(claimOf("a2", "a", "cpu=1"))
		},
		"after an interrupted watch new ones come before the old ones go": func(h *history) {
			old := claimOf("a1", "a", "cpu=1")
			h.put(poolOf("a", "nodes=1"), old)
			h.wait(time.Minute)
			h.put(claimOf("a2", "a", "cpu=1"))
			h.remove(old)
		},
	})
}
