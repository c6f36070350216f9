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
)

// readBudgets reads the PodDisruptionBudgets as they are now, once for many nodes.
type readBudgets func() (*kube.PodBudgets, error)

func (c *Controller) podBudgets(ctx context.Context) (*kube.PodBudgets, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := c.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("looking again at pod disruption budgets: %w", err)
	}
	return kube.NewPodBudgets(list.Items...), nil
}

// objection is a reason found past the cache to leave a node alone.
type objection struct {
	key, why string
	kind     kind
}

// kind of objections.
type kind int

const (
	none    kind = iota
	asks         // the node or a pod asks to be left alone
	held         // no pod may be evicted now; a drain would wait for that, too
	arrived      // pods came that the move does not provide for
)

// secondLook looks past the cache at nodes that the scheduler can no longer bind to:
// only now it is certain who is there.
func (c *Controller) secondLook(ctx context.Context, m *move, s *sight) (phase, error) {
	if m.round == s.round || m.surprised {
		return marked, nil // a binding may be on its way still; or see validate
	}
	found, err := c.objections(ctx, m)
	if err != nil {
		return marked, err
	}
	if len(found) > 0 && !m.patient() && m.surprises < mostSurprises && !slices.ContainsFunc(found, func(o objection) bool { return o.kind != arrived }) {
		m.surprised = true // they come no more now: provide for them, too
		m.surprises++
		return marked, nil
	}
	if len(found) > 0 {
		c.Metrics.DisruptionFailedValidates.WithLabelValues(m.kind()).Add(float64(len(found)))
		c.tellRejected(m, found[0].key, found[0].why)
		if m.buys() {
			return c.yield(m, found[0]), nil
		}
	}
	for _, o := range found {
		c.Log.Info("node stays after all", "move", m.id, "nodeclaim", o.key, "reason", o.why)
		if o.kind != held {
			c.tire(m, o.key)
		}
		c.letStay(ctx, m, o.key)
	}
	switch {
	case len(m.Nodes) == 0:
		return over, nil
	case m.buys():
		return buying, nil
	}
	c.depart(m, nil)
	c.tellStarting(m)
	return deleting, nil
}

// yield has the move undone because of an objection. Where eviction is held up nobody
// needs to rest: the node is not chosen before that ends.
func (c *Controller) yield(m *move, o objection) phase {
	p := c.fail(m, o.why)
	if o.kind == held {
		m.tired = nil
	}
	return p
}

// objections asks every node of the move, by key.
func (c *Controller) objections(ctx context.Context, m *move) ([]objection, error) {
	var (
		mu    sync.Mutex
		found []objection
	)
	budgets := sync.OnceValues(func() (*kube.PodBudgets, error) { return c.podBudgets(ctx) })
	failed := c.each(m.Nodes, func(key string) error {
		o, err := c.objection(ctx, m, key, budgets)
		if err == nil && o.kind != none {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, o)
		}
		return err
	})
	var errs []error
	for key, err := range failed {
		if errors.Is(err, errLeaving) {
			m.drop(key)
			continue
		}
		errs = append(errs, err)
	}
	slices.SortFunc(found, func(a, b objection) int { return strings.Compare(a.key, b.key) })
	return found, errors.Join(errs...)
}

func (c *Controller) objection(ctx context.Context, m *move, key string, budgets readBudgets) (objection, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return objection{}, errLeaving
		}
		return objection{}, fmt.Errorf("looking again at nodeclaim %s: %w", key, err)
	}
	if claim.DeletionTimestamp != nil {
		return objection{}, errLeaving
	}
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return objection{}, err
	}
	for i := range nodes {
		o, err := c.objectionOn(ctx, m, claim, nodes[i].Name, budgets)
		o.key = key
		if err != nil || o.kind != none {
			return o, err
		}
	}
	return objection{}, nil
}

func (c *Controller) objectionOn(ctx context.Context, m *move, claim *karpv1.NodeClaim, name string, budgets readBudgets) (objection, error) {
	node := &corev1.Node{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return objection{}, errLeaving
		}
		return objection{}, fmt.Errorf("looking again at node %s: %w", name, err)
	}
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		return objection{kind: asks, why: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`}, nil
	}
	pods, err := lookup.PodsOn(ctx, c.Live, name)
	if err != nil {
		return objection{}, fmt.Errorf("looking again: %w", err)
	}
	now := time.Now()
	if !mayIgnorePods(m, claim) {
		if o, err := c.podsObject(ctx, pods, m, budgets, now); err != nil || o.kind != none {
			return o, err
		}
	}
	if n := m.strangers(pods, now); n > 0 {
		return objection{kind: arrived, why: fmt.Sprintf("%s arrived meanwhile", count(n, "pod"))}, nil
	}
	return objection{}, nil
}

// strangers counts pods that need another home, which the move does not provide for.
// Once it buys they are planned for like any others on a node that leaves.
func (m *move) strangers(pods []*corev1.Pod, now time.Time) int {
	n := 0
	for _, p := range pods {
		if m.phase == marked && !m.pods[string(p.UID)] && kube.Movable(p, now) {
			n++
		}
	}
	return n
}

// mayIgnorePods reports whether pods that ask to stay have no say: the node must go,
// and its terminationGracePeriod bounds how long they can hold it up.
func mayIgnorePods(m *move, claim *karpv1.NodeClaim) bool {
	return claim.Spec.TerminationGracePeriod != nil && (m.Cause == disrupt.Drifted || m.Cause == disrupt.Expired)
}

// podsObject is the first pod's reason to stay. Budgets matter before anything is
// bought only: later the drain waits for them.
func (c *Controller) podsObject(ctx context.Context, pods []*corev1.Pod, m *move, budgets readBudgets, now time.Time) (objection, error) {
	for _, p := range pods {
		if p.DeletionTimestamp != nil || kube.Terminal(p) {
			continue
		}
		if kube.DoNotDisrupt(p, now) {
			return objection{kind: asks, why: fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s/%s)`, p.Namespace, p.Name)}, nil
		}
		if m.phase != marked || !kube.Evictable(p) {
			continue
		}
		now, err := budgets()
		if err != nil {
			return objection{}, err
		}
		if r := now.Refused(p); len(r.Budgets) > 0 && !(c.Surges != nil && now.MaySurge(p) && c.serves(ctx, p)) {
			return objection{kind: held, why: fmt.Sprintf("Pdb prevents pod evictions (PodDisruptionBudget=%v)", r.Budgets)}, nil
		}
	}
	return objection{}, nil
}

// letStay takes a node off the move. What cannot be taken off it now is taken off
// while the move is over.
func (c *Controller) letStay(ctx context.Context, m *move, key string) {
	m.drop(key)
	if m.departed {
		c.Mirror.CancelMove([]string{key}, nil)
	}
	if err := c.unmark(ctx, key, c.restOf(m, key)); err != nil {
		c.Log.Error(err, "could not take the marks off a node, trying again", "move", m.id, "nodeclaim", key)
	}
}
