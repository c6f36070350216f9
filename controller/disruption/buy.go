package disruption

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// purchase is a claim in place of the move's nodes.
type purchase struct {
	claim  *karpv1.NodeClaim
	launch schedule.Launch // zero when an earlier process bought it
}

// buy creates what takes the nodes' place. Decisions know of it before the API does:
// a batch between the two would give its room to others, or buy for the same pods.
func (c *Controller) buy(ctx context.Context, m *move) (phase, error) {
	for _, l := range m.Launches {
		pool := c.Mirror.Pool(l.Pool)
		if pool == nil {
			return c.fail(m, fmt.Sprintf("nodepool %q was deleted meanwhile", l.Pool)), nil
		}
		claim := provision.Draft(c.Catalog, l, pool)
		claim.Annotations[kube.ReplacesAnnotation] = m.id
		m.purchases = append(m.purchases, purchase{claim, l})
	}
	c.depart(m, m.purchases)
	var mu sync.Mutex
	var errs []error
	names := make([]string, len(m.purchases))
	byName := map[string]purchase{}
	for i, p := range m.purchases {
		names[i], byName[p.claim.Name] = p.claim.Name, p
	}
	c.each(names, func(name string) error {
		if err := c.create(ctx, m, byName[name]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		c.Log.Error(err, "could not buy all replacements", "move", m.id)
		m.starved = true
		return c.fail(m, "creating replacements failed"), nil
	}
	c.tellStarting(m)
	return waiting, nil
}

func (c *Controller) create(ctx context.Context, m *move, p purchase) error {
	l := p.launch
	if err := c.Client.Create(ctx, p.claim); err != nil {
		return fmt.Errorf("creating a nodeclaim in nodepool %q in place of %d nodes: %w", l.Pool, len(m.Nodes), err)
	}
	c.Mirror.Launched(p.claim, l.Offerings, nil) // its pods were promised already
	c.Metrics.ClaimsCreated.WithLabelValues(m.reason(), l.Pool, strconv.FormatBool(len(l.Relaxed) > 0)).Inc()
	c.tellLaunching(m, p)
	return nil
}

// depart tells decisions where the pods of the move's nodes go.
func (c *Controller) depart(m *move, bought []purchase) {
	d := kube.BeginMoveRequest{Nodes: m.Nodes, Homes: m.Receivers}
	for _, p := range bought {
		d.Bought = append(d.Bought, kube.LaunchedClaim{Claim: p.claim.DeepCopy(), Choices: p.launch.Offerings, Pods: p.launch.Pods})
	}
	c.Mirror.BeginMove(d)
	m.departed = true
}

// vanished reports whether a replacement is gone for certain, or on its way out.
func (c *Controller) vanished(ctx context.Context, bought *karpv1.NodeClaim) (bool, error) {
	claim := &karpv1.NodeClaim{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: bought.Name}, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for replacement %s: %w", bought.Name, err)
	}
	return claim.DeletionTimestamp != nil, nil
}

// remove asks the nodes to go. One that was asked leaves the move once that is seen.
func (c *Controller) remove(ctx context.Context, m *move, s *sight) (phase, error) {
	if m.displaces == nil {
		m.displaces = c.displaces(m, s)
	}
	var errs []error
	failed := c.each(m.Nodes, func(key string) error {
		machine, ok := s.machines[key]
		if !ok {
			return errLeaving
		}
		err := c.Client.Delete(ctx, machine.Claim.DeepCopy(), client.Preconditions{UID: &machine.Claim.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another of its name
			return errLeaving
		}
		if err != nil {
			return fmt.Errorf("deleting nodeclaim %s: %w", key, err)
		}
		return nil
	})
	for _, key := range m.Nodes {
		switch err := failed[key]; {
		case err == nil:
			c.tellRemoved(m, s.machines[key])
			m.drop(key)
		case errors.Is(err, errLeaving):
			m.drop(key)
		case s.now.Sub(m.since) >= insists:
			c.giveUp(ctx, m, s.machines[key], err)
		default:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return deleting, err
	}
	return over, nil
}

// giveUp lets a node stay whose deletion somebody refuses for good; the others go on.
func (c *Controller) giveUp(ctx context.Context, m *move, machine kube.Machine, err error) {
	c.tire(m, machine.Claim.Name)
	c.tellRefused(m, machine, err)
	c.letStay(ctx, m, machine.Claim.Name)
}

// discard deletes a replacement that nobody uses or waits for.
func (c *Controller) discard(ctx context.Context, name, id string) error {
	claim := &karpv1.NodeClaim{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || claim.Annotations[kube.ReplacesAnnotation] != id {
		return nil
	}
	if machine, ok := c.Mirror.Machine(name); ok && machine.Promised > 0 {
		return nil // others wait for it
	}
	used, err := c.used(ctx, claim)
	if err != nil || used {
		return err
	}
	if err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting replacement %s, which is not needed: %w", name, err)
	}
	c.Log.Info("deleted nodeclaim", "nodeclaim", name, "reason", "nothing is replaced by it any more", "move", id)
	return nil
}

// used reports whether pods run on the claim's node that would need another home.
func (c *Controller) used(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		pods, err := lookup.PodsOn(ctx, c.Live, nodes[i].Name)
		if err != nil {
			return false, err
		}
		for _, p := range pods {
			if p.Spec.NodeName != "" && needsHome(p) {
				return true, nil
			}
		}
	}
	return false, nil
}

// needsHome reports whether the pod belongs here and nowhere else: not one that every
// node has, and not finished.
func needsHome(p *corev1.Pod) bool {
	return !kube.Terminal(p) && !kube.OwnedByDaemonSet(p) && !kube.Static(p)
}
