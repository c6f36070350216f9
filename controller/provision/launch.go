// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// maxClaimsAtOnce bounds how many NodeClaims are created concurrently.
const maxClaimsAtOnce = 50

// launcher creates the NodeClaims of a plan's launches.
type launcher struct {
	client  client.Client
	mirror  *state.Mirror
	catalog *catalog.Keeper
	batches *Batcher
	buffers *buffer.Keeper
	guard   *guard.Guard
	report  *reporter
}

// launchAll creates the claims concurrently. A claim that is refused must not delay the others.
func (l *launcher) launchAll(ctx context.Context, launches []schedule.Launch) error {
	var (
		group panics.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(maxClaimsAtOnce)
	for _, launch := range launches {
		group.Go(func() error {
			if err := l.create(ctx, launch); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; errs has the errors
	return errors.Join(errs...)
}

// create creates the claim of one launch and nominates its pods to it, unless none of them needs
// the node any more, or other decisions have used up a limit meanwhile. If that fails, the pods are
// in the next batch.
func (l *launcher) create(ctx context.Context, launch schedule.Launch) error {
	if !l.mirror.AnyWaits(launch.Pods) {
		l.report.notNeeded(launch)
		return nil
	}
	claim, err := l.createClaim(ctx, launch)
	if err != nil {
		for _, pod := range launch.Pods {
			l.batches.Trigger(pod.UID)
		}
		if limit := (*state.LimitError)(nil); errors.As(err, &limit) {
			l.report.overLimit(launch, limit)
			return nil
		}
		if held := (*guard.Error)(nil); errors.As(err, &held) {
			l.report.held(launch, held)
			return nil
		}
		return fmt.Errorf("creating a nodeclaim for %d pods in nodepool %q: %w", len(launch.Pods), launch.Pool, err)
	}
	l.buffers.Launched(claim.Name, launch.Pods)
	l.report.claimCreated(claim.Name, launch)
	return nil
}

func (l *launcher) createClaim(ctx context.Context, launch schedule.Launch) (*karpv1.NodeClaim, error) {
	pool, urgent := l.mirror.Pool(launch.Pool), l.mirror.AnyInterrupted(launch.Pods)
	if !PoolExists(pool) {
		return nil, errPoolDeleted
	}
	return Creator{l.client, l.mirror, l.guard}.Create(ctx, launch, func() *karpv1.NodeClaim {
		claim := NewClaim(l.catalog, launch, pool)
		if urgent {
			claim.Annotations[kube.UrgentAnnotation] = "true"
		}
		return claim
	})
}

var errPoolDeleted = errors.New("the nodepool was deleted meanwhile")
