// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// PodDisruptionBudgets are judged (by kube) as a real API server judges them, whatever they
// select and whoever is ready.
//
// Rule BLOCK-3.
func TestRefusalsAgreeWithTheEvictionAPI(t *testing.T) {
	_, client := clustertest.Start(t, t.TempDir())
	const seed = 122
	random := rand.New(rand.NewPCG(seed, 0))
	refused := map[bool]int{}
	for i := range 40 {
		x := judged{t, client, fmt.Sprint("case-", i)}
		x.fill(random)
		for answer, n := range x.compare(seed) {
			refused[answer] += n
		}
	}
	if refused[true] < 20 || refused[false] < 20 {
		t.Errorf("%v pods were refused: too few of one kind to tell anything", refused)
	}
}

// judged is a namespace with pods and budgets.
type judged struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
}

func (x judged) fill(random *rand.Rand) {
	ctx := x.t.Context()
	_, err := x.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.namespace}}, metav1.CreateOptions{})
	x.must(err)
	for i := range 1 + random.IntN(4) {
		x.pod(random, fmt.Sprint("p", i))
	}
	for i := range random.IntN(3) {
		_, err := x.client.PolicyV1().PodDisruptionBudgets(x.namespace).Create(ctx, randomPDB(random, fmt.Sprint("b", i)), metav1.CreateOptions{})
		x.must(err)
	}
}

// pod makes a pod that runs, though nowhere: evictions only ask for its labels and status.
func (x judged) pod(random *rand.Rand, name string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if random.IntN(5) > 0 {
		p.Labels = map[string]string{"app": pickOne(random, "web", "web", "db")}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pods := x.client.CoreV1().Pods(x.namespace)
	clustertest.Eventually(x.t, "creating a pod", func(ctx context.Context) (err error) {
		p, err = pods.Create(ctx, p, metav1.CreateOptions{}) // its service account may not be there yet
		return err
	})
	ready := pickOne(random, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)
	phase := pickOne(random, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending)
	clustertest.Eventually(x.t, "setting a pod's status", func(ctx context.Context) error {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Phase = phase
		now.Status.Conditions = append(now.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready})
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

func randomPDB(random *rand.Rand, name string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.Selector = pickOne(random, nil, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}})
	least := pickOne(random, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(3))
	b.Spec.MinAvailable = &least
	policy := pickOne(random, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	if random.IntN(2) == 0 {
		b.Spec.UnhealthyPodEvictionPolicy = &policy
	}
	return b
}

// compare asks the API server about every pod without evicting it, and counts answers.
func (x judged) compare(seed int) map[bool]int {
	answers := map[bool]int{}
	clustertest.Eventually(x.t, "budgets that rest while pods are asked about", func(ctx context.Context) error {
		clear(answers)
		before, err := x.client.PolicyV1().PodDisruptionBudgets(x.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range before.Items {
			if b := &before.Items[i]; b.Status.ObservedGeneration == 0 {
				return fmt.Errorf("budget %s was not counted yet", b.Name)
			}
		}
		pods, err := x.client.CoreV1().Pods(x.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got, want := map[string]bool{}, map[string]bool{}
		for i := range pods.Items {
			p := &pods.Items[i]
			got[p.Name] = len(state.NewPDBs(before.Items...).Ask(p).RefusedBy) > 0
			if want[p.Name], err = x.refuses(ctx, p); err != nil {
				return err
			}
			answers[want[p.Name]]++
		}
		after, err := x.client.PolicyV1().PodDisruptionBudgets(x.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before.Items, after.Items); diff != "" {
			return fmt.Errorf("budgets changed meanwhile: %s", diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			x.t.Errorf("seed %d, %s: refused by the API server against by us: %s", seed, x.namespace, diff)
		}
		return nil
	})
	return answers
}

// refuses asks the API server what it would do.
func (x judged) refuses(ctx context.Context, p *corev1.Pod) (bool, error) {
	err := x.client.CoreV1().Pods(x.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
	if apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) {
		return true, nil
	}
	return false, err
}

func (x judged) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func pickOne[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }
