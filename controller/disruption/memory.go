// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// retryAnnotations is how long after a failed write NodePools are not written again.
const retryAnnotations = 10 * time.Second

// memory keeps back-offs and pauses over a change of leader: it loads them from annotations of
// NodeClaims and NodePools, and saves those of NodePools. Those of NodeClaims are written by the
// marker, together with the marks.
type memory struct {
	client   client.Client
	live     client.Reader
	mirror   *state.Mirror
	log      logr.Logger
	backOffs *backOffs
	outcomes *outcomes

	// written are the annotations by NodePool, as far as this process read or wrote them.
	written map[string]poolAnnotations
	// retryAt is when to write again after a failure.
	retryAt time.Time
}

// poolAnnotations are the values of kube.BackOffAnnotation and kube.ConsolidationPauseAnnotation,
// empty for none.
type poolAnnotations struct{ backOff, pause string }

// load reads the annotations of an earlier process: once from all NodeClaims, and from each
// NodePool when it is first seen.
func (y *memory) load(v *view) {
	if y.written == nil {
		y.written = map[string]poolAnnotations{}
		y.loadNodes(v)
	}
	for name := range v.pools {
		if _, known := y.written[name]; !known {
			y.loadPool(y.mirror.Pool(name), v)
		}
	}
}

func (y *memory) loadNodes(v *view) {
	nodes := map[string]backOff{}
	for key, claim := range v.claims {
		r, err := kube.BackOffOf(claim.Claim)
		if err != nil {
			y.log.Error(err, "cannot read whether the node backs off", "nodeclaim", key)
		}
		if r.Failures > 0 {
			nodes[key] = restored(r, v.now)
		}
	}
	y.backOffs.set(nodes)
}

func (y *memory) loadPool(p *karpv1.NodePool, v *view) {
	if p == nil {
		return
	}
	y.written[p.Name] = poolAnnotations{p.Annotations[kube.BackOffAnnotation], p.Annotations[kube.ConsolidationPauseAnnotation]}
	r, err := kube.BackOffOf(p)
	l, pauseErr := kube.ConsolidationPauseOf(p)
	if err := errors.Join(err, pauseErr); err != nil {
		y.log.Error(err, "cannot read all back-offs of the nodepool", "nodepool", p.Name)
	}
	if r.Failures > 0 {
		y.backOffs.restorePool(p.Name, r, v.now)
	}
	if l.Seconds > 0 {
		y.outcomes.restorePause(p.Name, l, v.now)
	}
}

// save writes the changes of NodePools' back-offs, which are rare: at most one for each failure
// there, and one when the failures are forgotten.
func (y *memory) save(ctx context.Context, v *view) error {
	if v.now.Before(y.retryAt) {
		return nil
	}
	maps.DeleteFunc(y.written, func(pool string, _ poolAnnotations) bool { return y.mirror.Pool(pool) == nil })
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(y.written)) {
		now := y.annotationsOf(name)
		if now == y.written[name] {
			continue
		}
		if err := y.annotatePool(ctx, name, now); err != nil {
			errs = append(errs, err)
			y.retryAt = v.now.Add(retryAnnotations)
			continue
		}
		y.written[name] = now
	}
	return errors.Join(errs...)
}

// annotationsOf returns the annotations that the NodePool should have.
func (y *memory) annotationsOf(pool string) (a poolAnnotations) {
	if x := y.backOffs.pool(pool); x.Failures > 0 {
		a.backOff = x.String()
	}
	if p, ok := y.outcomes.pause(pool); ok {
		a.pause = kube.ConsolidationPause{Seconds: int(p.length / time.Second), Until: p.until}.String()
	}
	return a
}

// annotatePool writes the annotations; a deleted NodePool needs none.
func (y *memory) annotatePool(ctx context.Context, name string, a poolAnnotations) error {
	pool := &karpv1.NodePool{}
	if err := y.live.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	stored := pool.DeepCopy()
	annotate(pool, kube.BackOffAnnotation, a.backOff)
	annotate(pool, kube.ConsolidationPauseAnnotation, a.pause)
	if maps.Equal(stored.Annotations, pool.Annotations) {
		return nil
	}
	if err := y.client.Patch(ctx, pool, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the back-offs of nodepool %s: %w", name, err)
	}
	return nil
}

// annotate sets an annotation, or removes it when the value is empty.
func annotate(o client.Object, key, value string) {
	all := o.GetAnnotations()
	if value == "" {
		delete(all, key)
		return
	}
	o.SetAnnotations(with(all, key, value))
}
