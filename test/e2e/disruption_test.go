// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/local"
)

// converges is how long a cluster may take to become as cheap as it gets.
const converges = 5 * time.Minute

// consolidatedPool is a NodePool of D and E sizes that loses a tenth of its nodes at a time.
func consolidatedPool(name, more string) []byte {
	return fmt.Appendf(nil, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: %[1]s
  annotations: {karve.dev/min-node-age: 0s}
spec:
  template:
    metadata: {labels: {pool: %[1]s}}
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements:
        - {key: karpenter.azure.com/sku-family, operator: In, values: [D, E]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
%[2]s
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 1s
    budgets: [{nodes: 10%%}]
`, name, indent(more, 8))
}

// mixedDeployment is one of the deployments of a mix.
type mixedDeployment struct {
	name          string
	milliCPU, mib int
	before, then  int // replicas
	capacity      string
	more          string // of the pod's spec
	budget        string // of its PodDisruptionBudget, empty for none
	protected     bool
}

// mix is 30 deployments: 1,000 pods that become 700, here and there to the last one.
func mix() []mixedDeployment {
	sizes := [...][2]int{{100, 256}, {150, 512}, {250, 1024}, {200, 256}, {400, 512}, {500, 2048}, {700, 1400}, {900, 1024}, {100, 1024}, {300, 768}}
	replicas := [30][2]int{
		{4, 4}, {18, 14}, {32, 14}, {46, 0}, {60, 60}, {14, 12}, {28, 16}, {42, 42}, {56, 44}, {10, 4}, {24, 0}, {38, 38}, {52, 46}, {6, 3}, {20, 20},
		{34, 27}, {48, 21}, {62, 18}, {16, 16}, {30, 27}, {44, 26}, {58, 58}, {12, 9}, {26, 11}, {40, 0}, {54, 54}, {8, 7}, {22, 13}, {36, 36}, {60, 60},
	}
	var all []mixedDeployment
	for i, r := range replicas {
		s := mixedDeployment{name: fmt.Sprintf("mix-%02d", i), milliCPU: sizes[i%10][0], mib: sizes[i%10][1], before: r[0], then: r[1], capacity: "on-demand"}
		if i%3 == 1 {
			s.capacity = "spot"
		}
		switch {
		case i == 14:
			s.protected = true
		case i%4 == 0:
			s.more = evenly(s.name)
		case i%4 == 1:
			s.budget = "maxUnavailable: 1"
		case i%4 == 2:
			s.budget = "maxUnavailable: 25%"
		}
		all = append(all, s)
	}
	return all
}

func (s mixedDeployment) manifest(pool string) []byte {
	selector := fmt.Sprintf("nodeSelector: {pool: %s, karpenter.sh/capacity-type: %s}", pool, s.capacity)
	text := string(deployment(s.name, s.before, fmt.Sprintf("{cpu: %dm, memory: %dMi}", s.milliCPU, s.mib), selector+s.more))
	if s.protected {
		text = strings.Replace(text, "metadata: {labels: {app: "+s.name+"}}", `metadata: {labels: {app: `+s.name+`}, annotations: {karpenter.sh/do-not-disrupt: "true"}}`, 1)
	}
	if s.budget != "" {
		text += fmt.Sprintf("---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %[1]s, namespace: default}\nspec: {%[2]s, selector: {matchLabels: {app: %[1]s}}}\n", s.name, s.budget)
	}
	return []byte(text)
}

// A thousand pods become seven hundred: the cluster becomes as small as it gets, in five minutes
// where the computer is not busy, its budget kept at every instant, no protected pod touched.
//
// Rule BUDGET-1.
func TestScaleDownConverges(t *testing.T) {
	env := plain.take(t)
	settle(t, env)
	all := mix()
	for _, s := range all {
		apply(t, env, s.manifest("mix"))
	}
	waitPending(t, env, 1000) // so that one plan is made for all
	apply(t, env, consolidatedPool("mix", ""))
	waitAll(t, env, all, func(s mixedDeployment) int { return s.before })
	protected := uids(t, env, "mix-14")
	first := currentCost(t, env)

	h := record(t, env, nodesKind, claimsKind)
	began := time.Now()
	for _, s := range all {
		scale(t, env, s.name, s.then)
	}
	waitAll(t, env, all, func(s mixedDeployment) int { return s.then })
	cheap := func() bool {
		stays := pinned(t, env, "mix-14")
		return currentCost(t, env).price-stays <= (first.price-stays)*0.85
	}
	last := waitQuiet(t, env, cheap)
	if took := last.Sub(began); took > converges { // a busy computer is slow, and not wrong
		t.Logf("the last change came %s after the scale-down, %s is aimed at", took.Round(time.Second), converges)
	}
	checkBudget(t, h, "mix", 10)
	if after := uids(t, env, "mix-14"); !maps.Equal(protected, after) {
		t.Errorf("protected pods were %v and are %v", protected, after)
	}
	waitAll(t, env, all, func(s mixedDeployment) int { return s.then })
	after := currentCost(t, env)
	bound := boundOf(t, env, all)
	t.Logf("%.0f s: from %d nodes at $%.4f/h to %d at $%.4f/h, %.3f of a price below which nothing holds these pods",
		last.Sub(began).Seconds(), first.nodes, first.price, after.nodes, after.price, after.price/bound)
	if !cheap() {
		t.Errorf("from $%.4f/h to $%.4f/h, of which $%.4f/h are pinned by protected pods: three pods of ten are gone", first.price, after.price, pinned(t, env, "mix-14"))
	}
}

// waitPending waits until the scheduler has given up on so many pods.
func waitPending(t *testing.T, env *local.Environment, n int) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, fmt.Sprintf("%d pods are pending", n), func(ctx context.Context) (bool, error) {
		var list corev1.PodList
		if err := errors.Join(env.Err(), env.Client().List(ctx, &list, client.InNamespace("default"))); err != nil {
			return false, err
		}
		pending := 0
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
				pending++
			}
		}
		if pending != n {
			return false, fmt.Errorf("%d are", pending)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitAll waits until every deployment has so many running pods.
func waitAll(t *testing.T, env *local.Environment, all []mixedDeployment, replicas func(mixedDeployment) int) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "all pods run", func(ctx context.Context) (bool, error) {
		var list corev1.PodList
		if err := errors.Join(env.Err(), env.Client().List(ctx, &list, client.InNamespace("default"))); err != nil {
			return false, err
		}
		have := map[string]int{}
		for i := range list.Items {
			if p := &list.Items[i]; available(p) {
				have[p.Labels["app"]]++
			}
		}
		for _, s := range all {
			if have[s.name] != replicas(s) {
				return false, fmt.Errorf("%d pods of %s run, want %d", have[s.name], s.name, replicas(s))
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitQuiet waits until nothing about nodes has changed for a while, and returns when something
// last changed. A NodePool that is paused after an undone consolidation may change again: unless
// the cluster is fit as it is, the end of the pause is waited for, too, which may be minutes away.
func waitQuiet(t *testing.T, env *local.Environment, fit func() bool) time.Time {
	t.Helper()
	const unchangedFor = 30 * time.Second
	last, seen := time.Now(), ""
	err := local.Until(t.Context(), converges+waitLimit, "nodes change no more", func(ctx context.Context) (bool, error) {
		now, err := nodeChanges(ctx, env)
		if err != nil {
			return false, err
		}
		if now != seen {
			last, seen = time.Now(), now
		}
		if err := env.Err(); err != nil || time.Since(last) <= unchangedFor {
			return false, err
		}
		if fit() {
			return true, nil
		}
		pausedTo, err := pausedUntil(ctx, env)
		return time.Since(pausedTo) > unchangedFor, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// pausedUntil is when the last pause of a NodePool ends, by its events.
func pausedUntil(ctx context.Context, env *local.Environment) (time.Time, error) {
	var list corev1.EventList
	if err := env.Client().List(ctx, &list, client.MatchingFields{"reason": "ConsolidationUndone"}); err != nil {
		return time.Time{}, err
	}
	var latest time.Time
	for _, e := range list.Items {
		_, text, _ := strings.Cut(e.Message, "left alone for ")
		pause, err := time.ParseDuration(text)
		if err != nil {
			return time.Time{}, fmt.Errorf("how long the NodePool is paused: %w", err)
		}
		if until := e.LastTimestamp.Add(pause); until.After(latest) {
			latest = until
		}
	}
	return latest, nil
}

// nodeChanges is what waitQuiet looks at: the claims, and the nodes that are about to go.
func nodeChanges(ctx context.Context, env *local.Environment) (string, error) {
	claims, err := env.Claims(ctx)
	if err != nil {
		return "", err
	}
	var text []string
	for _, c := range claims {
		text = append(text, fmt.Sprint(c.UID, c.Deleting, c.Node))
	}
	nodes, err := ownNodes(ctx, env)
	for i := range nodes {
		if taintedByUs(&nodes[i]) {
			text = append(text, nodes[i].Name)
		}
	}
	slices.Sort(text)
	return strings.Join(text, " "), err
}

func scale(t *testing.T, env *local.Environment, name string, replicas int) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := env.Client().Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
}

func uids(t *testing.T, env *local.Environment, app string) map[types.UID]bool {
	t.Helper()
	all, err := pods(t.Context(), env, app)
	if err != nil {
		t.Fatal(err)
	}
	out := map[types.UID]bool{}
	for _, p := range all {
		out[p.UID] = true
	}
	return out
}

func claimNames(t *testing.T, env *local.Environment) map[string]bool {
	t.Helper()
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range claims {
		names[c.Name] = true
	}
	return names
}

type nodeCost struct {
	nodes int
	price float64 // USD per hour
}

func currentCost(t *testing.T, env *local.Environment) nodeCost {
	t.Helper()
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return nodeCost{len(claims), newPriceList(t, env).total(claims)}
}

// pinned is what the nodes cost on which the app's pods run: while those are protected, they stay.
func pinned(t *testing.T, env *local.Environment, app string) float64 {
	t.Helper()
	all, err := pods(t.Context(), env, app)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newPriceList(t, env).total(slices.DeleteFunc(claims, func(c local.Claim) bool {
		return !slices.ContainsFunc(all, func(p corev1.Pod) bool { return p.Spec.NodeName == c.Node })
	}))
}

// boundOf is a price below which nothing holds the pods that are left.
func boundOf(t *testing.T, env *local.Environment, all []mixedDeployment) float64 {
	b, spot, firm := newPriceList(t, env), demand{}, demand{}
	for _, s := range all {
		d := &firm
		if s.capacity == "spot" {
			d = &spot
		}
		d.cpu += float64(s.then*s.milliCPU) / 1000
		d.gib += float64(s.then*s.mib) / 1024
	}
	return b.bound(spot, func(p catalog.Price) float64 { return p.Spot }) + b.bound(firm, func(p catalog.Price) float64 { return p.OnDemand })
}

func cores(all []mixedDeployment) int64 {
	sum := 0
	for _, s := range all {
		sum += s.then * s.milliCPU
	}
	return int64(sum)
}
