// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

// The only pod of a Deployment moves off a node that is drained without an instant
// in which no pod is ready or the Service has no endpoint; a PodDisruptionBudget
// that would hold back an eviction for ever does not hold the drain.
//
// Rule SURGE-2.
func TestSurgeLeavesNoUnreadySecond(t *testing.T) {
	env := environment(t)
	settle(t, env)
	apply(t, env, pool("surge", "default", ""))
	apply(t, env, surgeDeployment("single"))
	waitRunning(t, env, "single", 1)
	old := onlyPod(t, env, "single")
	err := local.Until(t.Context(), waitLimit, "the Service has an endpoint", func(ctx context.Context) (bool, error) {
		var list discoveryv1.EndpointSliceList
		err := env.Client().List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "single"})
		n := 0
		for i := range list.Items {
			n += serving(&list.Items[i])
		}
		return n == 1, err
	})
	if err != nil {
		t.Fatal(err)
	}

	h := record(t, env, podsKind, slicesKind)
	if err := env.Client().Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: old.Spec.NodeName}}); err != nil {
		t.Fatal(err)
	}
	err = local.Until(t.Context(), waitLimit, "the node is gone", func(ctx context.Context) (bool, error) {
		err := env.Client().Get(ctx, client.ObjectKey{Name: old.Spec.NodeName}, &corev1.Node{})
		return client.IgnoreNotFound(err) == nil && err != nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, env, "single", 1)

	var d appsv1.Deployment
	if err := env.Client().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "single"}, &d); err != nil {
		t.Fatal(err)
	}
	if stamp := d.Spec.Template.Annotations["karve.dev/surged-for"]; stamp != string(old.UID) || d.Generation != 2 {
		t.Errorf("generation %d, restarted for %q: want one restart, for %q", d.Generation, stamp, old.UID)
	}
	checkNoGap(t, h)
}

// checkNoGap looks at every instant of the drain.
func checkNoGap(t *testing.T, h *history) {
	t.Helper()
	fewest, ends := 2, 2
	began := false // the list that history begins with comes object by object
	h.replay(t, func(now instant) {
		ready, served := 0, 0
		now.each(podsKind, func(o *object) {
			if o.GetLabels()["app"] == "single" && available(as[corev1.Pod](t, o)) {
				ready++
			}
		})
		now.each(slicesKind, func(o *object) {
			if o.GetLabels()[discoveryv1.LabelServiceName] == "single" {
				served += serving(as[discoveryv1.EndpointSlice](t, o))
			}
		})
		if began = began || ready > 0 && served > 0; began {
			fewest, ends = min(fewest, ready), min(ends, served)
		}
	})
	if fewest != 1 || ends != 1 {
		t.Errorf("at worst %d pods were ready and the Service had %d endpoints, want 1 and 1", fewest, ends)
	}
}

func available(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func serving(s *discoveryv1.EndpointSlice) int {
	n := 0
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n += len(e.Addresses)
		}
	}
	return n
}

// surgeDeployment is a Deployment of one pod that wants a surge, behind a Service and a
// budget that no eviction passes.
func surgeDeployment(name string) []byte {
	d := strings.Replace(string(deployment(name, 1, `{cpu: "1"}`, "nodeSelector: {pool: surge}")),
		"namespace: default}", `namespace: default, annotations: {karve.dev/surge: "true"}}`, 1)
	return fmt.Appendf(nil, `%s
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: default}
spec: {selector: {app: %[2]s}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[2]s, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: %[2]s}}}
`, d, name)
}

func onlyPod(t *testing.T, env *local.Environment, app string) corev1.Pod {
	t.Helper()
	all, err := pods(t.Context(), env, app)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d pods of %s (%v), want one", len(all), app, err)
	}
	return all[0]
}
