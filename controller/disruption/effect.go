// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// conclusion is the result of a phase: effects, which executor.perform carries out in their
// order, and the next phase. The move keeps its phase when there is an error.
type conclusion struct {
	next    phase
	effects []effect
	err     error
}

// effect is one change to the cluster, the mirror or the back-offs, or one report. It is one of
// the types below.
type effect any

// Effects that change something.
type (
	// setBackOff has nodes of the move be left alone for a while.
	setBackOff struct{ keys []string }
	// beginMove has decisions count the nodes as marked for deletion, and nominates their pods to
	// others.
	beginMove struct{}
	// keepNode takes the marks off a node that left the move.
	keepNode struct{ key string }
)

// Effects that report something, by events, metrics and the log; see reporter.
type (
	// reportChosen: the nodes of the move are marked once it has been valid for a while.
	reportChosen struct{ view *view }
	// reportRejected: the move is not valid any more for so many of its nodes.
	reportRejected struct {
		key, why string
		nodes    int
	}
	// reportMarkFailed: a node could not be marked; the move continues with the others if goesOn.
	reportMarkFailed struct {
		key    string
		err    error
		goesOn bool
	}
	// reportKept: one node is kept, the move continues with the others.
	reportKept struct{ key, why string }
	// reportDecision: no node has an objection, and the NodeClaims of the replacements are created.
	reportDecision struct{}
	// reportLaunched: the NodeClaim of a replacement was created.
	reportLaunched struct{ replacement replacement }
	// reportLaunchFailed: NodeClaims of replacements could not be created.
	reportLaunchFailed struct{ err error }
	// reportAwaiting: a replacement is not ready yet.
	reportAwaiting struct{ claim *karpv1.NodeClaim }
	// reportDeleted: the NodeClaim of a node was deleted.
	reportDeleted struct{ node kube.ManagedNode }
	// reportRefused: the deletion of a node's NodeClaim was refused again and again.
	reportRefused struct {
		node kube.ManagedNode
		err  error
	}
	// reportFailed: the move is taken back.
	reportFailed struct{ why string }
)

// takeBack has the move taken back, and its nodes be left alone for a while.
func takeBack(m *move, why string) conclusion {
	return conclusion{next: takingBack, effects: []effect{setBackOff{m.all}, reportFailed{why}}}
}

// perform carries out the effects of a conclusion, in their order. (Phases that mark, launch,
// delete and take back write while they run.)
func (x *executor) perform(ctx context.Context, m *move, c conclusion) (phase, error) {
	for _, e := range c.effects {
		switch e := e.(type) {
		case setBackOff:
			x.setBackOff(m, e.keys)
		case beginMove:
			_ = x.beginMove(m) // it has no replacements
		case keepNode:
			x.keepNode(ctx, m, e.key)
		default:
			x.report.reportEffect(m, e)
		}
	}
	return c.next, c.err
}

func (x *executor) setBackOff(m *move, keys []string) {
	now := time.Now()
	for _, key := range keys {
		m.newBackOffs = with(m.newBackOffs, key, x.backOffs.next(key, now))
	}
}

// backOffOf is the back-off of a node of the move, to be written on its claim.
func (x *executor) backOffOf(m *move, key string) backOff {
	if b, ok := m.newBackOffs[key]; ok {
		return b
	}
	return x.backOffs.node(key)
}

// beginMove records the destinations of the pods of the move's nodes for further decisions. It
// fails, and records nothing, if replacements that do not exist yet would exceed a limit.
func (x *executor) beginMove(m *move) error {
	d := state.BeginMoveRequest{Nodes: m.Nodes, Nominations: m.Nominations}
	for _, r := range m.replacements {
		d.NewClaims = append(d.NewClaims, state.NewClaim{Claim: r.claim.DeepCopy(), Offerings: r.launch.Offerings, Pods: r.launch.Pods})
	}
	if err := x.mirror.BeginMove(d); err != nil {
		return err
	}
	m.begunInMirror = true
	return nil
}

// cancelMove has decisions count nodes as staying again, and forget replacements that no watch
// has shown.
func (x *executor) cancelMove(nodes, replacements []string) {
	x.mirror.CancelMove(slices.Clone(nodes), replacements)
}

// keepNode takes the marks off a node that left the move. Marks that cannot be removed now are
// removed while the move has ended.
func (x *executor) keepNode(ctx context.Context, m *move, key string) {
	if m.begunInMirror {
		x.cancelMove([]string{key}, nil)
	}
	if err := x.marks.remove(ctx, key, x.backOffOf(m, key)); err != nil {
		x.report.log.Error(err, "could not take the marks off a node, trying again", "move", m.id, "nodeclaim", key)
	}
}
