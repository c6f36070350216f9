package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// noteAgain is when a NodePool that could not be written is written again.
const noteAgain = 10 * time.Second

// notes are what is written on NodePools about what did not go well there. The zero
// notes are of no pool.
type notes struct {
	// written are the annotations' values by pool, as far as this process read or wrote them.
	written map[string]said
	// again is when to write what could not be written.
	again time.Time
}

// said is the values of kube.RestsAnnotation and kube.UnsettledAnnotation, empty for none.
type said struct{ rests, unsettled string }

// recall reads what an earlier process wrote down: once of every claim, and of each pool
// when it is first seen.
func (c *Controller) recall(s *sight) {
	if c.notes.written == nil {
		c.notes.written = map[string]said{}
		nodes := map[string]rest{}
		for key, machine := range s.machines {
			r, err := kube.RestOf(machine.Claim)
			if err != nil {
				c.Log.Error(err, "cannot tell whether the node rests", "nodeclaim", key)
			}
			if r.Failures > 0 {
				nodes[key] = rest{}.read(r, s.now)
			}
		}
		c.rests.set(nodes)
	}
	for name := range s.pools {
		if _, known := c.notes.written[name]; !known {
			c.recallPool(c.Mirror.Pool(name), s)
		}
	}
}

func (c *Controller) recallPool(p *karpv1.NodePool, s *sight) {
	if p == nil {
		return
	}
	c.notes.written[p.Name] = said{p.Annotations[kube.RestsAnnotation], p.Annotations[kube.UnsettledAnnotation]}
	r, err := kube.RestOf(p)
	l, lullErr := kube.LullOf(p)
	if err := errors.Join(err, lullErr); err != nil {
		c.Log.Error(err, "cannot tell all of what went wrong in the nodepool", "nodepool", p.Name)
	}
	if r.Failures > 0 {
		c.rests.byPool = with(c.rests.byPool, p.Name, rest{}.read(r, s.now))
	}
	if l.Seconds > 0 {
		c.relapses.lulls = with(c.relapses.lulls, p.Name, lull{}.read(l, s.now))
	}
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// remember writes down what changed about pools since, which is seldom: at most once for
// each failure there, and when all is forgiven.
func (c *Controller) remember(ctx context.Context, s *sight) error {
	if s.now.Before(c.notes.again) {
		return nil
	}
	maps.DeleteFunc(c.notes.written, func(pool string, _ said) bool { return c.Mirror.Pool(pool) == nil })
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.notes.written)) {
		now := c.noteOf(name)
		if now == c.notes.written[name] {
			continue
		}
		if err := c.annotatePool(ctx, name, now); err != nil {
			errs = append(errs, err)
			c.notes.again = s.now.Add(noteAgain)
			continue
		}
		c.notes.written[name] = now
	}
	return errors.Join(errs...)
}

// noteOf is what the pool should say.
func (c *Controller) noteOf(pool string) (n said) {
	if x, ok := c.rests.byPool[pool]; ok {
		n.rests = x.String()
	}
	if l, ok := c.relapses.lulls[pool]; ok {
		n.unsettled = kube.Lull{Seconds: int(l.length / time.Second), Until: l.until}.String()
	}
	return n
}

// annotatePool is no news to a pool that is gone.
func (c *Controller) annotatePool(ctx context.Context, name string, n said) error {
	pool := &karpv1.NodePool{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	stored := pool.DeepCopy()
	annotate(pool, kube.RestsAnnotation, n.rests)
	annotate(pool, kube.UnsettledAnnotation, n.unsettled)
	if maps.Equal(stored.Annotations, pool.Annotations) {
		return nil
	}
	if err := c.Client.Patch(ctx, pool, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing down what failed in nodepool %s: %w", name, err)
	}
	return nil
}

// annotate sets an annotation, or takes it off when the value is empty.
func annotate(o client.Object, key, value string) {
	all := o.GetAnnotations()
	if value == "" {
		delete(all, key)
		return
	}
	o.SetAnnotations(with(all, key, value))
}
