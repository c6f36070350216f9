// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// maxRechecks is how often a move is checked again because pods arrived.
const maxRechecks = 3

// inspectMarked inspects nodes that kube-scheduler can no longer bind pods to: only now it is
// certain which pods run there.
func (x *executor) inspectMarked(ctx context.Context, m *move, v *view) conclusion {
	if m.round == v.round || m.recheck {
		return conclusion{next: marked} // a binding may still be on its way; or see Controller.validate
	}
	found := x.inspector.inspect(ctx, m)
	m.drop(found.gone...)
	if found.err != nil {
		return conclusion{next: marked, err: found.err}
	}
	return afterInspection(m, found.objections)
}

// afterInspection takes back a move that needs replacements if any of its nodes should be kept;
// other moves continue without these nodes.
func afterInspection(m *move, found []objection) conclusion {
	if m.mayProvideFor(found) {
		m.recheck = true // the nodes accept no more pods now: provide for these, too
		m.rechecks++
		return conclusion{next: marked}
	}
	var effects []effect
	if len(found) > 0 {
		effects = append(effects, reportRejected{key: found[0].key, why: found[0].why, nodes: len(found)})
		if m.replaces() {
			c := takeBackFor(m, found[0])
			c.effects = append(effects, c.effects...)
			return c
		}
	}
	for _, o := range found {
		effects = append(effects, reportKept{o.key, o.why})
		if o.kind != evictionBlocked {
			effects = append(effects, setBackOff{[]string{o.key}})
		}
		effects = append(effects, keepNode{o.key})
		m.drop(o.key)
	}
	switch {
	case len(m.Nodes) == 0:
		return conclusion{next: ended, effects: effects}
	case m.replaces():
		return conclusion{next: launching, effects: effects}
	}
	return conclusion{next: deleting, effects: append(effects, beginMove{}, reportDecision{})}
}

// mayProvideFor reports whether the move is decided again with the pods that were added: it must
// be made, and there is no other objection.
func (m *move) mayProvideFor(found []objection) bool {
	return len(found) > 0 && !m.consolidates() && m.rechecks < maxRechecks &&
		!slices.ContainsFunc(found, func(o objection) bool { return o.kind != podsArrived })
}

// takeBackFor has the move taken back because of an objection. Where evictions are held up, the
// nodes need no back-off: they are not chosen again before that ends.
func takeBackFor(m *move, o objection) conclusion {
	if o.kind == evictionBlocked {
		return conclusion{next: takingBack, effects: []effect{reportFailed{o.why}}}
	}
	return takeBack(m, o.why)
}

// objection is a reason found past the cache to leave a node alone.
type objection struct {
	key, why string
	kind     objectionKind
}

type objectionKind int

const (
	noObjection     objectionKind = iota
	annotated                     // the node or a pod is annotated with do-not-disrupt
	evictionBlocked               // a pod may not be evicted now, and a drain would wait for it
	podsArrived                   // pods arrived that the move does not provide for
)

// findings are what an inspection of a move's nodes found.
type findings struct {
	objections []objection // by key
	gone       []string    // nodes that are being deleted, or are deleted
	err        error
}

// inspector reads the newest version of nodes and their pods, past the cache.
type inspector struct {
	client  client.Client
	live    client.Reader
	surging *surgingPods
}

// once returns a function that calls read when it is first called, and then returns what that
// returned. Others wait at a channel, not at a mutex as in package sync: while goroutines wait at
// a mutex for a request, virtual time stands still.
func once[T any](read func() (T, error)) func() (T, error) {
	var (
		turn  = make(chan struct{}, 1)
		done  bool
		value T
		err   error
	)
	return func() (T, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		if !done {
			value, err = read()
			done = true
		}
		return value, err
	}
}

// inspect inspects every node of the move.
func (i *inspector) inspect(ctx context.Context, m *move) (all findings) {
	var mu sync.Mutex
	pdbs := once(func() (*state.PDBs, error) { return i.readPDBs(ctx) })
	failed := forEach(m.Nodes, func(key string) error {
		o, err := i.node(ctx, key, inspection{m, pdbs})
		if err == nil && o.kind != noObjection {
			mu.Lock()
			defer mu.Unlock()
			all.objections = append(all.objections, o)
		}
		return err
	})
	var errs []error
	for key, err := range failed {
		if errors.Is(err, errDeleting) {
			all.gone = append(all.gone, key)
			continue
		}
		errs = append(errs, err)
	}
	all.err = errors.Join(errs...)
	slices.SortFunc(all.objections, func(a, b objection) int { return strings.Compare(a.key, b.key) })
	return all
}

func (i *inspector) readPDBs(ctx context.Context) (*state.PDBs, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := i.live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("reading pod disruption budgets past the cache: %w", err)
	}
	return state.NewPDBs(list.Items...), nil
}

// inspection is of the nodes of one move. It reads the PodDisruptionBudgets once for all of them.
type inspection struct {
	of   *move
	pdbs func() (*state.PDBs, error)
}

func (i *inspector) node(ctx context.Context, key string, in inspection) (objection, error) {
	claim := &karpv1.NodeClaim{}
	if err := i.live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return objection{}, errDeleting
		}
		return objection{}, fmt.Errorf("reading nodeclaim %s past the cache: %w", key, err)
	}
	if claim.DeletionTimestamp != nil {
		return objection{}, errDeleting
	}
	nodes, err := lookup.NodesOf(ctx, i.client, claim)
	if err != nil {
		return objection{}, err
	}
	for n := range nodes {
		o, err := i.nodeOf(ctx, claim, nodes[n].Name, in)
		o.key = key
		if err != nil || o.kind != noObjection {
			return o, err
		}
	}
	return objection{}, nil
}

func (i *inspector) nodeOf(ctx context.Context, claim *karpv1.NodeClaim, name string, in inspection) (objection, error) {
	node := &corev1.Node{}
	if err := i.live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return objection{}, errDeleting
		}
		return objection{}, fmt.Errorf("reading node %s past the cache: %w", name, err)
	}
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		return objection{kind: annotated, why: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`}, nil
	}
	pods, err := lookup.PodsOn(ctx, i.live, name)
	if err != nil {
		return objection{}, fmt.Errorf("reading the pods on a node past the cache: %w", err)
	}
	now := time.Now()
	if !mayIgnorePods(in.of, claim) {
		if o, err := i.pods(ctx, pods, in, now); err != nil || o.kind != noObjection {
			return o, err
		}
	}
	if n := in.of.unplanned(pods, now); n > 0 {
		return objection{kind: podsArrived, why: fmt.Sprintf("%s arrived meanwhile", count(n, "pod"))}, nil
	}
	return objection{}, nil
}

// mayIgnorePods reports whether pods cannot object, by do-not-disrupt or by PodDisruptionBudgets:
// the node must be disrupted, and its terminationGracePeriod bounds how long they can delay that.
func mayIgnorePods(m *move, claim *karpv1.NodeClaim) bool {
	return claim.Spec.TerminationGracePeriod != nil && (m.Cause == disrupt.Drifted || m.Cause == disrupt.Expired)
}

// pods returns the first pod's objection. PodDisruptionBudgets count only before anything is
// launched: later the drain waits for them.
func (i *inspector) pods(ctx context.Context, pods []*corev1.Pod, in inspection, now time.Time) (objection, error) {
	for _, p := range pods {
		if p.DeletionTimestamp != nil || kube.Terminal(p) {
			continue
		}
		if kube.DoNotDisrupt(p, now) {
			return objection{kind: annotated, why: fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s/%s)`, p.Namespace, p.Name)}, nil
		}
		if in.of.phase != marked || !kube.EvictableUnlessProtected(p) {
			continue
		}
		pdbs, err := in.pdbs()
		if err != nil {
			return objection{}, err
		}
		if r := pdbs.Ask(p); len(r.RefusedBy) > 0 && !i.surging.leaves(ctx, p, pdbs) {
			return objection{kind: evictionBlocked, why: fmt.Sprintf("Pdb prevents pod evictions (PodDisruptionBudget=%v)", r.RefusedBy)}, nil
		}
	}
	return objection{}, nil
}

// unplanned counts pods that need another node and that the move does not provide for. Once
// replacements are launched, provisioning provides for them as for the pods of any node that is
// leaving.
func (m *move) unplanned(pods []*corev1.Pod, now time.Time) int {
	n := 0
	for _, p := range pods {
		if m.phase == marked && !m.planned[string(p.UID)] && kube.ReschedulableNow(p, now) {
			n++
		}
	}
	return n
}
