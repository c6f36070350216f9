// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// retryRefused is how long a write that is refused is retried before karve gives up the node.
const retryRefused = time.Minute

// delete deletes the NodeClaims of the move's nodes.
func (x *executor) delete(ctx context.Context, m *move, v *view) conclusion {
	if m.displaced == nil {
		m.displaced = x.outcomes.displacedBy(m, v)
	}
	errByKey := forEach(m.Nodes, func(key string) error { return x.deleter.delete(ctx, v.byClaim[key].Claim) })
	return afterDeletion(m, errByKey, v)
}

// afterDeletion removes nodes from the move whose NodeClaims are deleted. A node whose deletion is
// refused for long is kept; the move continues with the others.
func afterDeletion(m *move, errByKey map[string]error, v *view) conclusion {
	c := conclusion{next: ended}
	var errs []error
	for _, key := range m.Nodes {
		switch err := errByKey[key]; {
		case err == nil:
			c.effects = append(c.effects, reportDeleted{v.byClaim[key]})
			m.drop(key)
		case errors.Is(err, errDeleting):
			m.drop(key)
		case v.now.Sub(m.since) >= retryRefused:
			c.effects = append(c.effects, setBackOff{[]string{key}}, reportRefused{v.byClaim[key], err}, keepNode{key})
			m.drop(key)
		default:
			errs = append(errs, err)
		}
	}
	if c.err = errors.Join(errs...); c.err != nil {
		c.next = deleting
	}
	return c
}

// deleter deletes NodeClaims.
type deleter struct {
	client client.Client
	live   client.Reader
	mirror *state.Mirror
	log    logr.Logger
}

// delete deletes the claim. It returns errDeleting when the claim does not exist any more, which a
// nil claim says, too.
func (d *deleter) delete(ctx context.Context, claim *karpv1.NodeClaim) error {
	if claim == nil {
		return errDeleting
	}
	err := d.client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &claim.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted, or another of its name
		return errDeleting
	}
	if err != nil {
		return fmt.Errorf("deleting nodeclaim %s: %w", claim.Name, err)
	}
	return nil
}

// discard deletes a replacement of the move with that ID, unless pods use it or wait for it.
func (d *deleter) discard(ctx context.Context, name, id string) error {
	claim := &karpv1.NodeClaim{}
	if err := d.live.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || claim.Annotations[kube.ReplacesAnnotation] != id {
		return nil
	}
	if seen, ok := d.mirror.ManagedNode(name); ok && seen.Nominated > 0 {
		return nil
	}
	used, err := d.used(ctx, claim)
	if err != nil || used {
		return err
	}
	if err := d.client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting replacement %s, which is not needed: %w", name, err)
	}
	d.log.Info("deleted nodeclaim", "nodeclaim", name, "reason", "it replaces no node any more", "move", id)
	return nil
}

// used reports whether pods run on the claim's node that would need another node.
func (d *deleter) used(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	nodes, err := lookup.NodesOf(ctx, d.client, claim)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		pods, err := lookup.PodsOn(ctx, d.live, nodes[i].Name)
		if err != nil {
			return false, err
		}
		for _, p := range pods {
			if p.Spec.NodeName != "" && unfinishedWorkload(p) {
				return true, nil
			}
		}
	}
	return false, nil
}
