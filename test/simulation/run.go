// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Options are those of one run.
type Options struct {
	Seed uint64
	// For is how long things happen and go wrong. Zero: an hour.
	For time.Duration
	// Actions and Faults are how many of them there are. Zero: as the seed has it; negative: none.
	Actions, Faults int
	// Kinds are faults that happen once each, besides.
	Kinds []FaultKind
	// Only are the numbers of the steps that are taken; nil: all. Others are drawn and passed over.
	Only []int
	// Log receives what karve logs.
	Log logr.Logger
	// Trace receives a line per step and per change of the cluster.
	Trace func(line string)
}

// Result is what came of a run.
type Result struct {
	// Problems are what should not have been.
	Problems []string
	// Steps are what happened, in order.
	Steps []string
	// NodeClaims is how many there were, and Nodes how many of them joined.
	NodeClaims, Nodes int
}

// How long karve has, once nothing goes wrong any more, until all is as it should be, and once
// nothing is needed any more, until nothing is left.
const (
	settlesWithin = time.Hour
	emptyWithin   = 90 * time.Minute
)

// Run lives through what the seed says: users' wishes, faults, crashes. Then faults end, and every pod
// that can be placed must run; at last nothing is needed any more, and nothing may be left.
//
// It must be called within a testing/synctest bubble.
func Run(t testing.TB, o Options) Result {
	t.Helper()
	if o.For == 0 {
		o.For = time.Hour
	}
	s := draw(o)
	time.Sleep(time.Until(s.begins))
	w := newWorld(t, o)
	defer w.close()
	s.world = w
	s.begin()
	for i, x := range s.steps {
		if o.Only != nil && !slices.Contains(o.Only, i) {
			continue
		}
		s.waitUntil(w.begun.Add(x.at))
		w.say("step %d: %s", i, x.what)
		x.do(s)
	}
	s.waitUntil(w.begun.Add(o.For))
	w.say("faults end")
	s.heal()
	s.await(settlesWithin, w.unsettled)
	w.say("nothing is needed any more")
	s.dismiss()
	s.await(emptyWithin, w.left)
	r := Result{Problems: w.problems, NodeClaims: w.seen.claims, Nodes: w.seen.nodes}
	for i, x := range s.steps {
		r.Steps = append(r.Steps, fmt.Sprintf("%d. %v: %s", i, x.at.Round(time.Second), x.what))
	}
	return r
}

// await waits until nothing is missing, and records what is after so long.
func (s *script) await(limit time.Duration, missing func() []string) {
	var last []string
	for begun := time.Now(); time.Since(begun) < limit; time.Sleep(restartsWithin) {
		s.restartEnded()
		if last = missing(); len(last) == 0 {
			return
		}
	}
	for _, m := range last {
		s.world.problem("after %v: %s", limit, m)
	}
}

// unsettled is what is not as it should be while nothing goes wrong.
func (w *world) unsettled() []string {
	missing := w.mismatches()
	for _, p := range w.objects.pods() {
		if p.DeletionTimestamp == nil && !isReady(p) && !w.explained(p) {
			missing = append(missing, fmt.Sprintf("pod %s is %s on node %q", p.Name, p.Status.Phase, p.Spec.NodeName))
		}
	}
	for _, c := range w.objects.claims() {
		if c.DeletionTimestamp == nil && !c.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
			missing = append(missing, fmt.Sprintf("nodeclaim %s is not initialized", c.Name))
		}
	}
	return missing
}

// drained reports whether karve says of a Node that it is being drained because its NodeClaim is missing.
func (w *world) drained(vm string) bool {
	for _, e := range all[*corev1.Event](w.objects, "Event") {
		if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == vm && e.Reason == "NodeClaimMissing" {
			return true
		}
	}
	return false
}

// explained reports whether karve says why a pod waits: in an event of the last minutes.
func (w *world) explained(p *corev1.Pod) bool {
	for _, e := range all[*corev1.Event](w.objects, "Event") {
		if e.InvolvedObject.UID == p.UID && e.Reason == "FailedScheduling" {
			return true
		}
	}
	return false
}

// left is what exists though nothing is needed.
func (w *world) left() []string {
	var left []string
	for _, c := range w.objects.claims() {
		left = append(left, "nodeclaim "+c.Name)
	}
	for _, n := range w.objects.nodes() {
		left = append(left, "node "+n.Name)
	}
	state := w.azure.State()
	for _, vm := range state.VMs {
		left = append(left, "VM "+vm.Name)
	}
	for _, n := range state.NICs {
		left = append(left, "interface "+n.Name)
	}
	for _, d := range state.Disks {
		left = append(left, "disk "+d)
	}
	return left
}

// mismatches are VMs, NodeClaims and Nodes that do not belong together.
func (w *world) mismatches() []string {
	var out []string
	claims := map[string]bool{}
	for _, c := range w.objects.claims() {
		claims[c.Name] = true
	}
	vms := map[string]bool{}
	for vm, claim := range w.azure.VMs.Tagged(tagClaim) {
		vms[strings.ToLower(vm)] = true
		if !claims[claim] && !w.drained(vm) {
			out = append(out, fmt.Sprintf("VM %s has no nodeclaim", vm))
		}
	}
	for _, c := range w.objects.claims() {
		if id := c.Status.ProviderID; id != "" && !vms[strings.ToLower(id[strings.LastIndex(id, "/")+1:])] {
			out = append(out, fmt.Sprintf("nodeclaim %s has no VM", c.Name))
		}
	}
	for _, n := range w.objects.nodes() {
		if !vms[strings.ToLower(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])] {
			out = append(out, fmt.Sprintf("node %s has no VM", n.Name))
		}
	}
	return out
}

// tagClaim is the tag in which karve writes a VM's claim.
const tagClaim = "karve.dev_claim"
