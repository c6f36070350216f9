// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// refusing simulates a webhook that refuses the deletion of the claim.
func refusing(e *controllertest.Env, c client.Client, claim string) client.Client {
	return interceptor.NewClient(withWatch{c, e.API}, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, is := o.(*karpv1.NodeClaim); is && o.GetName() == claim {
				return errors.New("admission webhook denied the request")
			}
			return c.Delete(ctx, o, opts...)
		},
	})
}

// withWatch is a client that interceptors take.
type withWatch struct {
	client.Client
	api client.WithWatch
}

func (w withWatch) Watch(ctx context.Context, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	return w.api.Watch(ctx, l, opts...)
}

// A node whose deletion is refused for good leaves its move: it takes pods again, backs off, and
// an event reports it; the other node of the move is deleted.
//
// Rule MOVE-7.
func TestDeletionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := scripted(t, 2, disrupt.Drifted)
		stays := e.Claims()[0]
		e.Disrupt = func(c *disruption.Options) {
			c.Search, c.Recheck = s.search, s.recheck
			c.Client = refusing(e, c.Client, stays.Name)
		}
		e.Restart()
		e.Pace = time.Second
		s.off = false
		e.Until(60, "one node on its way out", func() bool { e.Join(); return deleted(e) })
		s.off = true
		e.Until(90, "the other as before", func() bool { e.Join(); return unmarked(e) && len(e.Claims()) == 2 })
		claim := controllertest.Get(e, &karpv1.NodeClaim{}, stays.Name)
		if r, err := kube.BackOffOf(claim); err != nil || r.Failures != 1 {
			t.Errorf("rests %v, %v", r, err)
		}
		synctest.Wait()
		texts := strings.Join(append(e.EventTexts(stays.Name), e.EventTexts(claim.Status.NodeName)...), "\n")
		if !strings.Contains(texts, "DisruptionFailed: Disrupting as Drifted failed: the deletion was refused for 1m0s") {
			t.Errorf("the owner was told:\n%s", texts)
		}
	})
}
