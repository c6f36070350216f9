// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/provider"
)

// Mode is how a planned fault strikes.
type Mode string

// Faults happen at one write: it is refused, or it takes effect and karve crashes or
// merely loses the response. A crash just before a write equals one just after the write before.
const (
	Refuse     Mode = "refuse"
	DieAfter   Mode = "die after"
	LoseAnswer Mode = "lose the answer"
)

// Faults counts karve's writes, to the cluster and to the cloud, and fails the
// configured one.
type Faults struct {
	At   int // 1 is the first write; 0 strikes none
	Mode Mode
	// Outage is set while the API server answers none of karve's requests. Reads from the cache, and the
	// cloud, work.
	Outage atomic.Bool

	count atomic.Int64
	dead  atomic.Bool
}

// Writes is how many writes karve tried so far.
func (f *Faults) Writes() int { return int(f.count.Load()) }

var (
	errPlanned = errors.New("planned fault")
	errDead    = errors.New("the process is dead")
	errOutage  = fmt.Errorf("the API server does not answer: %w", context.DeadlineExceeded)
)

// write does one write, with the fault if it is this one's turn. The writes of a
// crashed process have no effect; Env.Step starts another.
func (f *Faults) write(do func() error) error {
	if f.dead.Load() {
		return errDead
	}
	if int(f.count.Add(1)) != f.At {
		return do()
	}
	if f.Mode == Refuse {
		return errPlanned
	}
	err := do()
	if f.Mode == DieAfter {
		f.dead.Store(true)
		return errDead
	}
	if err == nil {
		err = errPlanned
	}
	return err
}

// request is write for a request to the API server.
func (f *Faults) request(do func() error) error {
	if f.Outage.Load() {
		return errOutage
	}
	return f.write(do)
}

// live reads past the cache, unless there is an outage.
func (f *Faults) live(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if f.Outage.Load() {
				return errOutage
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if f.Outage.Load() {
				return errOutage
			}
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if f.Outage.Load() {
				return errOutage
			}
			return c.Create(ctx, o, opts...)
		},
	})
}

func (f *Faults) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.request(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.request(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f.request(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.request(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return f.request(func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
	})
}

func (f *Faults) provider(p provider.Provider) provider.Provider { return faulty{p, f} }

type faulty struct {
	provider.Provider
	faults *Faults
}

func (p faulty) Launch(ctx context.Context, claim provider.Claim) (i provider.Instance, err error) {
	err = p.faults.write(func() error { i, err = p.Provider.Launch(ctx, claim); return err })
	if errors.Is(err, errPlanned) || errors.Is(err, errDead) {
		i = provider.Instance{} // the answer is lost with everything in it
	}
	return i, err
}

func (p faulty) Terminate(ctx context.Context, id string) error {
	return p.faults.write(func() error { return p.Provider.Terminate(ctx, id) })
}

func (p faulty) TerminateByClaim(ctx context.Context, claim provider.Claim) error {
	return p.faults.write(func() error { return p.Provider.TerminateByClaim(ctx, claim) })
}

// born sets the fields of created objects that a real API server sets.
func born(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetUID() == "" {
				o.SetUID(types.UID(uuid.NewString()))
			}
			if ts := o.GetCreationTimestamp(); ts.IsZero() {
				o.SetCreationTimestamp(metav1.Now())
			}
			return c.Create(ctx, o, opts...)
		},
	})
}
