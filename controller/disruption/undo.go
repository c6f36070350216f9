package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// fail has the move undone.
func (c *Controller) fail(m *move, why string) phase {
	c.tire(m, m.all...)
	c.tellFailed(m, why)
	return undoing
}

// tire has nodes of the move rest.
func (c *Controller) tire(m *move, keys ...string) {
	now := time.Now()
	for _, key := range keys {
		m.tired = with(m.tired, key, c.rests.next(key, now))
	}
}

// restOf is how long a node of the move rests, for the claim to say.
func (c *Controller) restOf(m *move, key string) rest {
	if r, ok := m.tired[key]; ok {
		return r
	}
	return c.rests.nodes[key]
}

// annotate has the claim say how long it rests.
func (x rest) annotate(claim *karpv1.NodeClaim) {
	if x.Failures > 0 {
		annotate(claim, kube.RestsAnnotation, x.String())
	}
}

// undo takes a move back: the nodes take pods again, and replacements that nobody
// uses go.
//
// The marks go before the replacements. A static pool counts a marked node and its
// replacement as one: were the replacement to go first, it would buy another.
func (c *Controller) undo(ctx context.Context, m *move, s *sight) (phase, error) {
	stubborn := s.now.Sub(m.since) >= insists
	if err := c.renounce(ctx, m); err != nil && !stubborn {
		return undoing, err
	}
	err := c.release(ctx, m)
	if err != nil && !stubborn {
		return undoing, err
	}
	errs := []error{err}
	for _, err := range c.each(m.names(), func(name string) error { return c.discard(ctx, name, m.id) }) {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return undoing, err
	}
	return over, nil
}

// names of the claims that were bought.
func (m *move) names() []string {
	names := make([]string, 0, len(m.purchases))
	for _, p := range m.purchases {
		names = append(names, p.claim.Name)
	}
	return names
}

// renounce has every node of a move that buys say that it is taken back, before the first
// looks as if nothing had been: whoever finds all replacements there goes on otherwise.
func (c *Controller) renounce(ctx context.Context, m *move) error {
	if m.renounced || !m.buys() {
		return nil
	}
	mark := m.mark()
	mark.Undone = true
	var errs []error
	for _, err := range c.each(m.Nodes, func(key string) error { return c.remark(ctx, key, mark, c.restOf(m, key)) }) {
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	m.renounced = err == nil
	return err
}

// mark is what the move's nodes say.
func (m *move) mark() kube.MoveMark {
	return kube.MoveMark{ID: m.id, Replacements: m.replacements(), Cause: string(m.Cause), Since: m.begun}
}

// remark changes the mark of a claim that has one.
func (c *Controller) remark(ctx context.Context, key string, mark kube.MoveMark, r rest) error {
	_, err := c.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		if _, marked := claim.Annotations[kube.MoveAnnotation]; !marked || claim.DeletionTimestamp != nil {
			return nil
		}
		claim.Annotations[kube.MoveAnnotation] = mark.String()
		r.annotate(claim)
		return nil
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking nodeclaim %s as one that stays: %w", key, err)
	}
	return nil
}

// release takes the marks off the move's nodes and has decisions count them as staying,
// each as soon as it is free: one that cannot be written must not keep the others.
func (c *Controller) release(ctx context.Context, m *move) error {
	failed := c.each(m.Nodes, func(key string) error { return c.unmark(ctx, key, c.restOf(m, key)) })
	var errs []error
	var free []string
	for _, key := range m.Nodes {
		if err := failed[key]; err != nil {
			errs = append(errs, err)
			continue
		}
		free = append(free, key)
	}
	if m.departed {
		c.Mirror.CancelMove(slices.Clone(free), m.names())
	}
	m.drop(free...)
	m.departed = m.departed && len(errs) > 0
	return errors.Join(errs...)
}
