// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// causeExpired is karve's own reason, of soft expiry, which counts as Drifted.
const causeExpired = "Expired"

// budgets judges that no more nodes of a NodePool are disrupted at once than its budgets allow (S9). It
// counts whenever karve taints a node that is not being deleted, which is how a disruption begins: of
// the nodes that were initialized and whose VMs are not terminating, those that are not ready, are being
// deleted, or carry the taint.
type budgets struct {
	bench
	tainted []tainting
	causes  map[types.UID]string // the reason that a NodeClaim gave last for being disrupted
}

// tainting is a beginning to be judged once its reason must have been seen.
type tainting struct {
	at    time.Time
	node  *node
	pool  string
	total int
	down  []types.UID // Nodes
}

func newBudgets(b bench) *budgets { return &budgets{bench: b, causes: map[types.UID]string{}} }

func (j *budgets) claim(_ time.Time, _ *karpv1.NodeClaim, x *claim) {
	switch {
	case x.says(karpv1.ConditionTypeDisruptionReason):
		j.causes[x.UID] = x.reason(karpv1.ConditionTypeDisruptionReason)
	case x.lives():
		delete(j.causes, x.UID)
	}
}

func (j *budgets) node(at time.Time, was *corev1.Node, x *node) {
	if was == nil || disrupted(was) || !x.lives() || !disrupted(x.Node) || x.DeletionTimestamp != nil || !x.managed() {
		return
	}
	t := tainting{at: at, node: x, pool: x.Labels[karpv1.NodePoolLabelKey]}
	for uid, n := range j.cluster.nodes {
		if n.Labels[karpv1.NodePoolLabelKey] != t.pool || !j.counts(n, at) {
			continue
		}
		t.total++
		if j.down(n, at) {
			t.down = append(t.down, uid)
		}
	}
	j.tainted = append(j.tainted, t)
}

// counts reports whether the node may have counted, a moment ago at least.
func (j *budgets) counts(n *node, at time.Time) bool {
	c := j.cluster.claimOf(n)
	initialized := n.Labels[karpv1.NodeInitializedLabelKey] == "true" || c != nil && !c.initialized.IsZero()
	lately := at.Add(-j.settings.ObjectLag)
	left := !n.gone.IsZero() && n.gone.Before(lately) || c != nil && !c.terminating.IsZero() && c.terminating.Before(lately)
	return initialized && !left
}

// down reports whether the node uses its NodePool's budget for certain: what others did to it must have
// been known.
func (j *budgets) down(n *node, at time.Time) bool {
	c := j.cluster.claimOf(n)
	if !n.lives() || c != nil && !c.terminating.IsZero() {
		return false
	}
	known := func(since time.Time) bool { return !since.IsZero() && at.Sub(since) >= j.settings.ObjectLag }
	return !n.tainted.IsZero() || known(n.notReadySince) || known(n.deleted) || c != nil && known(c.deleted)
}

func (j *budgets) check(at time.Time) {
	j.tainted = slices.DeleteFunc(j.tainted, func(t tainting) bool {
		since := at.Sub(t.at)
		due := since >= j.settings.ObjectLag && (j.cause(t.node) != "" || since >= j.settings.WriteLag)
		if due {
			j.judge(t)
		}
		return due
	})
	for uid := range j.causes {
		if j.cluster.claims[uid] == nil {
			delete(j.causes, uid)
		}
	}
}

func (j *budgets) judge(t tainting) {
	p := j.cluster.pools[t.pool]
	if p == nil {
		return
	}
	cause := j.cause(t.node)
	if cause != "" && !slices.Contains(knownCauses(), cause) {
		return // no budget is about it
	}
	down := 0
	for _, uid := range t.down {
		if !j.terminatedBy(uid, t.at.Add(j.settings.ObjectLag)) {
			down++
		}
	}
	allowed := 0
	for _, spec := range p.specs.within(t.at.Add(-j.settings.ObjectLag), t.at) {
		allowed = max(allowed, j.allowed(spec, t, cause))
	}
	if down > allowed {
		j.violation("S9", "nodepool/"+t.pool, t.at, fmt.Sprintf("%s was tainted to be disrupted (%s): %d of %d nodes were down then, of which its budgets allow %d",
			t.node.name(), orUnknown(cause), down, t.total, allowed))
	}
}

// terminatedBy reports whether the Node's VM was seen to be terminating by then.
func (j *budgets) terminatedBy(uid types.UID, at time.Time) bool {
	c := j.claimThen(j.cluster.nodes[uid])
	return c != nil && !c.terminating.IsZero() && !c.terminating.After(at)
}

func orUnknown(cause string) string {
	if cause == "" {
		return "for a reason that its NodeClaim does not give"
	}
	return cause
}

// claimThen is the Node's NodeClaim, which may be gone.
func (j *budgets) claimThen(n *node) *claim {
	if n == nil {
		return nil
	}
	if c := j.cluster.claimOf(n); c != nil {
		return c
	}
	for _, c := range j.cluster.claims {
		if resourceKey(c.Status.ProviderID) == resourceKey(n.Spec.ProviderID) {
			return c
		}
	}
	return nil
}

// cause is why the node is disrupted, as budgets name it; empty when its NodeClaim does not say.
func (j *budgets) cause(n *node) string {
	c := j.claimThen(n)
	if c == nil {
		return ""
	}
	if cause := j.causes[c.UID]; cause != causeExpired {
		return cause
	}
	return string(karpv1.DisruptionReasonDrifted)
}

func knownCauses() []string {
	return []string{string(karpv1.DisruptionReasonUnderutilized), string(karpv1.DisruptionReasonEmpty), string(karpv1.DisruptionReasonDrifted)}
}

// allowed is how many nodes may be down at any instant of the lag before the taint: karve may have
// decided right before a window began. Without a cause it is the most that any cause allows.
func (j *budgets) allowed(spec *karpv1.NodePoolSpec, t tainting, cause string) int {
	causes := knownCauses()
	if cause != "" {
		causes = []string{cause}
	}
	most := 0
	for _, cause := range causes {
		for at := t.at.Add(-j.settings.ObjectLag); ; at = nextMinute(at) {
			if at.After(t.at) {
				at = t.at
			}
			most = max(most, allowedAt(spec.Disruption.Budgets, t.total, cause, at))
			if at.Equal(t.at) {
				break
			}
		}
	}
	return most
}

func nextMinute(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// allowedAt is the strictest of the budgets that are active and about the cause. One that cannot be read
// allows nothing.
func allowedAt(all []karpv1.Budget, nodes int, cause string, at time.Time) int {
	allowed := math.MaxInt
	for i := range all {
		b := &all[i]
		most, err := nodesOf(b.Nodes, nodes)
		active := false
		if err == nil {
			active, err = isActive(b, at)
		}
		if err != nil {
			return 0
		}
		if active && (b.Reasons == nil || slices.Contains(b.Reasons, karpv1.DisruptionReason(cause))) {
			allowed = min(allowed, most)
		}
	}
	return allowed
}

// nodesOf reads a number of nodes, or a percentage, which rounds up.
func nodesOf(text string, nodes int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of nodes", text)
	}
	if n = max(0, n); percent {
		n = int(math.Ceil(float64(n) * float64(nodes) / 100))
	}
	return n, nil
}

// isActive reports whether the budget's schedule has a minute within its duration before now. One that
// never has any is always active, as in Karpenter.
func isActive(b *karpv1.Budget, now time.Time) (bool, error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, nil
	}
	text, lasts := "", time.Duration(0)
	if b.Schedule != nil {
		text = *b.Schedule
	}
	if b.Duration != nil {
		lasts = b.Duration.Duration
	}
	s, err := parseSchedule(text)
	if err != nil {
		return false, err
	}
	return s.hitWithin(now.Add(-lasts), now) || s.never(now), nil
}
