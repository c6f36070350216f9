// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// launch creates the replacements. The mirror knows of them before the API does: a batch in
// between would nominate other pods to them, or launch nodes for the same pods.
func (x *executor) launch(ctx context.Context, m *move) conclusion {
	var err error
	if m.replacements, err = x.launcher.newClaims(m.Launches, m.id); err != nil {
		return takeBack(m, err.Error())
	}
	if err := x.beginMove(m); err != nil {
		return takeBack(m, "a replacement cannot be launched: "+err.Error())
	}
	return afterLaunch(m, x.launcher.create(ctx, m))
}

func afterLaunch(m *move, err error) conclusion {
	if err != nil {
		m.launchOutcome = launchFailed
		c := takeBack(m, "creating replacements failed")
		c.effects = append([]effect{reportLaunchFailed{err}}, c.effects...)
		return c
	}
	return conclusion{next: awaiting, effects: []effect{reportDecision{}}}
}

// await waits until all replacements are ready. Then it inspects the nodes once more.
func (x *executor) await(ctx context.Context, m *move, v *view) conclusion {
	first, err := x.launcher.firstNotReady(ctx, m.replacements)
	if err != nil || first.state == unseen {
		return conclusion{next: awaiting, err: err}
	}
	if first.state != ready {
		return m.awaits(first, v)
	}
	found := x.inspector.inspect(ctx, m)
	m.drop(found.gone...)
	switch {
	case found.err != nil:
		return conclusion{next: awaiting, err: found.err}
	case len(found.objections) > 0:
		return takeBackFor(m, found.objections[0])
	}
	m.launchOutcome = launchReady
	return conclusion{next: deleting}
}

// awaits is the conclusion from a replacement that is not ready.
func (m *move) awaits(r readiness, v *view) conclusion {
	why := fmt.Sprintf("replacement %s is gone", r.name)
	if r.state == notReady {
		if v.now.Sub(r.claim.CreationTimestamp.Time) <= v.readyWithin {
			return conclusion{next: awaiting, effects: []effect{reportAwaiting{r.claim}}}
		}
		why = fmt.Sprintf("replacement %s is not ready after %s", r.name, v.readyWithin)
	}
	m.launchOutcome = launchFailed
	return takeBack(m, why)
}

// readiness is how far a replacement is.
type readiness struct {
	state readyState
	name  string
	claim *karpv1.NodeClaim // set when it is not ready
}

type readyState int

const (
	// ready replacements accept pods.
	ready readyState = iota
	// unseen replacements exist, but no watch has shown them yet.
	unseen
	gone
	notReady
)

// launcher creates replacements and watches them.
type launcher struct {
	client  client.Client
	live    client.Reader
	mirror  *state.Mirror
	catalog *catalog.Keeper
	report  *reporter
}

// newClaims makes the NodeClaims of a move without creating them. If that fails, it returns those
// that were made before.
func (l *launcher) newClaims(launches []schedule.Launch, id string) (made []replacement, err error) {
	for _, launch := range launches {
		pool := l.mirror.Pool(launch.Pool)
		if !provision.PoolExists(pool) {
			return made, fmt.Errorf("nodepool %q was deleted meanwhile", launch.Pool)
		}
		claim := provision.NewClaim(l.catalog, launch, pool)
		claim.Annotations[kube.ReplacesAnnotation] = id
		made = append(made, replacement{claim, launch})
	}
	return made, nil
}

// create creates the NodeClaims of all replacements.
func (l *launcher) create(ctx context.Context, m *move) error {
	byName := map[string]replacement{}
	for _, r := range m.replacements {
		byName[r.claim.Name] = r
	}
	var mu sync.Mutex
	var errs []error
	forEach(m.replacementNames(), func(name string) error {
		if err := l.createOne(ctx, m, byName[name]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
		return nil
	})
	return errors.Join(errs...)
}

func (l *launcher) createOne(ctx context.Context, m *move, r replacement) error {
	if err := provision.Create(ctx, l.client, r.claim); err != nil {
		return fmt.Errorf("creating a nodeclaim in nodepool %q to replace %d nodes: %w", r.launch.Pool, len(m.Nodes), err)
	}
	l.mirror.RecordCreatedClaim(r.claim, r.launch.Offerings, nil) // its pods are nominated to it already
	l.report.reportEffect(m, reportLaunched{r})
	return nil
}

// firstNotReady returns how far the first replacement is that is not ready; ready when all are.
func (l *launcher) firstNotReady(ctx context.Context, all []replacement) (readiness, error) {
	for _, r := range all {
		name := r.claim.Name
		seen, known := l.mirror.ManagedNode(name)
		if !known || seen.Claim.DeletionTimestamp != nil {
			isGone, err := l.deletedOrDeleting(ctx, name)
			if err != nil || !isGone {
				return readiness{state: unseen}, err
			}
			return readiness{state: gone, name: name}, nil
		}
		if !acceptsPods(seen) {
			return readiness{state: notReady, name: name, claim: seen.Claim}, nil
		}
	}
	return readiness{state: ready}, nil
}

// deletedOrDeleting reports whether a replacement certainly does not exist any more, or is being
// deleted.
func (l *launcher) deletedOrDeleting(ctx context.Context, name string) (bool, error) {
	claim := &karpv1.NodeClaim{}
	err := l.live.Get(ctx, client.ObjectKey{Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for replacement %s: %w", name, err)
	}
	return claim.DeletionTimestamp != nil, nil
}

// acceptsPods reports whether a replacement was initialized and its kubelet has not stopped
// answering since, while others were awaited.
func acceptsPods(node kube.ManagedNode) bool {
	return kube.ConditionTrue(node.Claim, karpv1.ConditionTypeInitialized) && node.Node != nil && kube.Ready(node.Node)
}
