// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// lagging reads NodeClaims one read late, like a cache whose watch is behind: each read returns
// what the API had at the read before.
func lagging(e *controllertest.Env) client.Client {
	last := map[string]*karpv1.NodeClaim{}
	return interceptor.NewClient(e.API, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, into, opts...)
			claim, ok := into.(*karpv1.NodeClaim)
			if err != nil || !ok {
				return err
			}
			now, before := claim.DeepCopy(), last[key.Name]
			if last[key.Name] = now; before != nil {
				before.DeepCopyInto(claim)
			}
			return nil
		},
	})
}

// A pass over a stale copy of a NodeClaim finds again what the pass before has written: it
// reports nothing and counts nothing.
//
// Rule LAUNCH-7.
func TestStagesAreToldOnceWhateverTheCacheShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{Create: 5 * time.Second})
		lines := map[string]int{}
		e.Lifecycle.Log = funcr.New(func(_, line string) {
			for _, stage := range []string{"launched", "registered", "initialized"} {
				if strings.Contains(line, `"`+stage+` nodeclaim"`) {
					lines[stage]++
				}
			}
		}, funcr.Options{})
		e.Lifecycle.Client = lagging(e)
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("web", "1", "1Gi"))
		e.Until(40, "an initialized claim", func() bool { e.Join(); return e.Ready() == 1 })
		e.Steps(10)
		for _, stage := range []string{"launched", "registered", "initialized"} {
			if n := observed(t, e.Registry, stage); lines[stage] != 1 || n != 1 {
				t.Errorf("%s: %d lines in the log, counted %d times; want one of each", stage, lines[stage], n)
			}
		}
		if n := e.Counter("karpenter_nodes_created_total"); n != 1 {
			t.Errorf("%v nodes are counted, want 1", n)
		}
	})
}

// observed is how many claims were counted for a stage.
func observed(t *testing.T, registry prometheus.Gatherer, stage string) uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "karve_launch_stage_seconds" && m.GetLabel()[0].GetValue() == stage {
				return m.GetHistogram().GetSampleCount()
			}
		}
	}
	return 0
}
