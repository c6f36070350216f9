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

// annotationStore keeps back-offs and pauses over a change of leader: it loads them from
// annotations of NodeClaims and NodePools, and saves those of NodePools. Those of NodeClaims are
// written by the marker, together with the marks.
type annotationStore struct {
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
func (s *annotationStore) load(v *view) {
	if s.written == nil {
		s.written = map[string]poolAnnotations{}
		s.loadNodes(v)
	}
	for name := range v.pools {
		if _, known := s.written[name]; !known {
			s.loadPool(s.mirror.Pool(name), v)
		}
	}
}

func (s *annotationStore) loadNodes(v *view) {
	nodes := map[string]backOff{}
	for key, node := range v.byClaim {
		r, err := kube.BackOffOf(node.Claim)
		if err != nil {
			s.log.Error(err, "cannot read whether the node backs off", "nodeclaim", key)
		}
		if r.Failures > 0 {
			nodes[key] = restored(r, v.now)
		}
	}
	s.backOffs.set(nodes)
}

func (s *annotationStore) loadPool(p *karpv1.NodePool, v *view) {
	if p == nil {
		return
	}
	s.written[p.Name] = poolAnnotations{p.Annotations[kube.BackOffAnnotation], p.Annotations[kube.ConsolidationPauseAnnotation]}
	r, err := kube.BackOffOf(p)
	l, pauseErr := kube.ConsolidationPauseOf(p)
	if err := errors.Join(err, pauseErr); err != nil {
		s.log.Error(err, "cannot read all back-offs of the nodepool", "nodepool", p.Name)
	}
	if r.Failures > 0 {
		s.backOffs.restorePool(p.Name, r, v.now)
	}
	if l.Seconds > 0 {
		s.outcomes.restorePause(p.Name, l, v.now)
	}
}

// save writes the changes of NodePools' back-offs, which are rare: at most one for each failure
// there, and one when the failures are forgotten.
func (s *annotationStore) save(ctx context.Context, v *view) error {
	if v.now.Before(s.retryAt) {
		return nil
	}
	maps.DeleteFunc(s.written, func(pool string, _ poolAnnotations) bool { return s.mirror.Pool(pool) == nil })
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.written)) {
		now := s.annotationsOf(name)
		if now == s.written[name] {
			continue
		}
		if err := s.annotatePool(ctx, name, now); err != nil {
			errs = append(errs, err)
			s.retryAt = v.now.Add(retryAnnotations)
			continue
		}
		s.written[name] = now
	}
	return errors.Join(errs...)
}

// annotationsOf returns the annotations that the NodePool should have.
func (s *annotationStore) annotationsOf(pool string) (a poolAnnotations) {
	if x := s.backOffs.pool(pool); x.Failures > 0 {
		a.backOff = x.String()
	}
	if p, ok := s.outcomes.pause(pool); ok {
		a.pause = kube.ConsolidationPause{Seconds: int(p.length / time.Second), Until: p.until}.String()
	}
	return a
}

// annotatePool writes the annotations; a deleted NodePool needs none.
func (s *annotationStore) annotatePool(ctx context.Context, name string, a poolAnnotations) error {
	pool := &karpv1.NodePool{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	stored := pool.DeepCopy()
	annotate(pool, kube.BackOffAnnotation, a.backOff)
	annotate(pool, kube.ConsolidationPauseAnnotation, a.pause)
	if maps.Equal(stored.Annotations, pool.Annotations) {
		return nil
	}
	if err := s.client.Patch(ctx, pool, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
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
