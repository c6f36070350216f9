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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// objection is a reason found past the cache to leave a node alone.
type objection struct{ key, why string }

// secondLook looks past the cache at nodes that the scheduler can no longer bind to:
// only now it is certain who is there.
func (c *Controller) secondLook(ctx context.Context, m *move, s *sight) (phase, error) {
	if m.round == s.round {
		return marked, nil // a binding may be on its way still
	}
	found, err := c.objections(ctx, m, true)
	if err != nil {
		return marked, err
	}
	if len(found) > 0 {
		c.Metrics.DisruptionFailedValidates.WithLabelValues(m.kind()).Add(float64(len(found)))
		c.tellRejected(m, found[0].key, found[0].why)
		if m.buys() {
			return c.fail(m, found[0].why), nil
		}
	}
	for _, o := range found {
		c.Log.Info("node stays after all", "move", m.id, "nodeclaim", o.key, "reason", o.why)
		c.letStay(ctx, m, o.key)
		m.tired = append(m.tired, o.key)
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

// objections asks every node of the move, by key. newcomers has pods that the move
// does not know count.
func (c *Controller) objections(ctx context.Context, m *move, newcomers bool) ([]objection, error) {
	var (
		mu    sync.Mutex
		found []objection
	)
	failed := c.each(m.Nodes, func(key string) error {
		why, err := c.objection(ctx, m, key, newcomers)
		if err == nil && why != "" {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, objection{key, why})
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

func (c *Controller) objection(ctx context.Context, m *move, key string, newcomers bool) (string, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return "", errLeaving
		}
		return "", fmt.Errorf("looking again at nodeclaim %s: %w", key, err)
	}
	if claim.DeletionTimestamp != nil {
		return "", errLeaving
	}
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return "", err
	}
	for i := range nodes {
		why, err := c.objectionOn(ctx, m, claim, nodes[i].Name, newcomers)
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (c *Controller) objectionOn(ctx context.Context, m *move, claim *karpv1.NodeClaim, name string, newcomers bool) (string, error) {
	node := &corev1.Node{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return "", errLeaving
		}
		return "", fmt.Errorf("looking again at node %s: %w", name, err)
	}
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		return `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`, nil
	}
	pods, err := lookup.PodsOn(ctx, c.Live, name)
	if err != nil {
		return "", fmt.Errorf("looking again: %w", err)
	}
	now := time.Now()
	if n := m.strangers(pods, now); newcomers && n > 0 {
		return fmt.Sprintf("%d pods arrived meanwhile", n), nil
	}
	if mayIgnorePods(m, claim) {
		return "", nil
	}
	return c.podsObject(ctx, pods, now)
}

// strangers counts pods that need another home, which the move does not provide for.
func (m *move) strangers(pods []*corev1.Pod, now time.Time) int {
	n := 0
	for _, p := range pods {
		if m.pods != nil && !m.pods[string(p.UID)] && kube.Movable(p, now) {
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

// podsObject is the first pod's reason to stay.
func (c *Controller) podsObject(_ context.Context, pods []*corev1.Pod, now time.Time) (string, error) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && !kube.Terminal(p) && kube.DoNotDisrupt(p, now) {
			return fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s/%s)`, p.Namespace, p.Name), nil
		}
	}
	return "", nil
}

// letStay takes a node off the move. What cannot be taken off it now is taken off
// while the move is over.
func (c *Controller) letStay(ctx context.Context, m *move, key string) {
	m.drop(key)
	if err := c.unmark(ctx, key); err != nil {
		c.Log.Error(err, "could not take the marks off a node, trying again", "move", m.id, "nodeclaim", key)
	}
}
