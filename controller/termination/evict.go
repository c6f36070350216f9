// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

const (
	// inOrder is for how long pods of a node are evicted one by one; atOnce is how many
	// evictions are in flight when that is not quick enough.
	inOrder, atOnce = 2 * time.Second, 20
	// stuck is how long a pod may outlive its own deletion before it stops counting.
	stuck = time.Minute
)

// Evictor evicts pods. It remembers which ones a disruption budget held
// back, so as not to request their eviction again too soon; forgetting that is harmless.
type Evictor struct {
	// Surges moves pods that must not leave before their replacements are ready; nil
	// means that no pod surges.
	Surges *Surges
	// Displaces is called with each pod before its eviction or deletion is requested, so that free
	// capacity can be found for its replacement; nil when it is not needed.
	Displaces func(*corev1.Pod)

	client  client.Client
	events  *events.Recorder
	metrics *metrics.Set
	log     logr.Logger

	held        backoffs // pods whose eviction was requested and is held back
	undeletable backoffs // pods whose deletion, past their node's deadline, was refused
}

// NewEvictor returns an Evictor that has evicted no pod yet.
func NewEvictor(c client.Client, e *events.Recorder, m *metrics.Set, log logr.Logger) *Evictor {
	return &Evictor{client: c, events: e, metrics: m, log: log}
}

// Drain takes one step of emptying the node and returns the pods it still waits
// for. Past deadline minus a pod's own grace period the pod is deleted, whatever
// protects it; a zero deadline means that there is none.
func (e *Evictor) Drain(ctx context.Context, node *corev1.Node, deadline time.Time) ([]*corev1.Pod, error) {
	pods, err := lookup.PodsOn(ctx, e.client, node.Name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_, all := sort(pods, now)
	e.force(ctx, all, deadline, now)
	pods, _ = e.split(pods, deadline)
	groups, waiting := sort(pods, now)
	for _, group := range groups {
		if len(group) > 0 { // later groups wait until this one has left
			e.evict(ctx, largestFirst(group, node), deadline)
			return waiting, ctx.Err()
		}
	}
	return nil, nil
}

// sort groups the pods that the drain waits for in the order in which the groups leave: critical
// pods after others, and pods of DaemonSets after others of the same priority.
func sort(pods []*corev1.Pod, now time.Time) (groups [4][]*corev1.Pod, waiting []*corev1.Pod) {
	for _, p := range pods {
		if !drainable(p, now) {
			continue
		}
		i := 0
		if kube.OwnedByDaemonSet(p) {
			i++
		}
		if critical(p) {
			i += 2
		}
		groups[i] = append(groups[i], p)
		waiting = append(waiting, p)
	}
	return groups, waiting
}

// drainable reports whether the drain waits for the pod. It does not wait for pods that tolerate
// the taint, nor for pods that should have ended long ago: their kubelet does not answer.
func drainable(p *corev1.Pod, now time.Time) bool {
	if kube.Terminal(p) || kube.OwnedByNode(p) || toleratesDisruption(p) {
		return false
	}
	return p.DeletionTimestamp == nil || now.Before(p.DeletionTimestamp.Add(stuck))
}

func toleratesDisruption(p *corev1.Pod) bool {
	for _, t := range p.Spec.Tolerations {
		if kube.Tolerates(t, karpv1.DisruptedNoScheduleTaint) {
			return true
		}
	}
	return false
}

func critical(p *corev1.Pod) bool {
	return p.Spec.PriorityClassName == "system-cluster-critical" || p.Spec.PriorityClassName == "system-node-critical"
}

// force deletes, across all groups, the pods whose own grace period would not fit before the
// deadline at the next step of the drain: each gets its grace period, or the time that is left.
func (e *Evictor) force(ctx context.Context, pods []*corev1.Pod, deadline, now time.Time) {
	if deadline.IsZero() {
		return
	}
	for _, p := range pods {
		grace := time.Duration(graceSeconds(p)) * time.Second
		if now.Before(deadline.Add(-grace-drainPoll)) || p.DeletionTimestamp != nil && !p.DeletionTimestamp.After(deadline) || !e.undeletable.due(p.UID, now) {
			continue
		}
		e.remove(ctx, p, deadline, now)
	}
}

// remove deletes a pod to meet its node's deadline.
func (e *Evictor) remove(ctx context.Context, p *corev1.Pod, deadline, now time.Time) {
	e.displaces(p)
	left := min(max(int64(deadline.Sub(now)/time.Second), 1), max(graceSeconds(p), 1))
	err := e.client.Delete(ctx, p, client.GracePeriodSeconds(left), client.Preconditions{UID: &p.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		e.refuse(p, deletion, err)
		return
	}
	e.undeletable.forget(p.UID)
	e.metrics.PodsDrained.WithLabelValues("Forceful Termination").Inc()
	e.events.Publish(events.Event{About: p, Reason: "Disrupted", Key: "forced",
		Message: fmt.Sprintf("Deleting the pod to accommodate the terminationTime %s of the node. The pod was granted %d seconds of grace-period of its %d terminationGracePeriodSeconds",
			deadline.Format(time.RFC3339), left, graceSeconds(p))})
}

func graceSeconds(p *corev1.Pod) int64 {
	if p.Spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds
	}
	return *p.Spec.TerminationGracePeriodSeconds
}

// evict requests the eviction of each pod of the group that is not terminating yet: one after the
// other as long as that is quick, so that their replacements are created in this order, too.
func (e *Evictor) evict(ctx context.Context, pods []*corev1.Pod, deadline time.Time) {
	now := time.Now()
	rest := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || kube.DoNotDisrupt(p, now) || !e.held.due(p.UID, now)
	})
	for len(rest) > 0 && time.Since(now) < inOrder {
		e.move(ctx, rest[0], deadline)
		rest = rest[1:]
	}
	e.hurry(ctx, rest, deadline)
}

// hurry requests many evictions in parallel.
func (e *Evictor) hurry(ctx context.Context, pods []*corev1.Pod, deadline time.Time) {
	var group panics.Group
	group.SetLimit(atOnce)
	for _, p := range pods {
		group.Go(func() error { e.move(ctx, p, deadline); return nil })
	}
	_ = group.Wait() // holds are recorded with the pod
}

// move evicts the pod unless it waits for its replacement.
func (e *Evictor) move(ctx context.Context, p *corev1.Pod, deadline time.Time) {
	waitsFor, err := e.Surges.Holds(ctx, p, deadline)
	switch {
	case err != nil:
		e.held.hold(p.UID, holdup{"unknown", "whether it can surge is not known: " + err.Error()})
		e.log.Error(err, "cannot tell whether a pod can surge", "pod", p.Namespace+"/"+p.Name)
	case waitsFor != "":
		e.held.hold(p.UID, holdup{"held", "waits for " + waitsFor})
	default:
		e.ask(ctx, p)
	}
}

func (e *Evictor) displaces(p *corev1.Pod) {
	if e.Displaces != nil {
		e.Displaces(p)
	}
}

func (e *Evictor) ask(ctx context.Context, p *corev1.Pod) {
	e.displaces(p)
	err := e.client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	e.metrics.Evictions.WithLabelValues(code(err)).Inc()
	switch {
	case err == nil:
		e.held.forget(p.UID)
		e.metrics.PodsDrained.WithLabelValues("Evicted").Inc()
		e.events.Publish(events.Event{About: p, Reason: "Evicted", Key: "evicted", Message: "Evicted pod: its node is being removed"})
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // deleted, or another of its name
		e.held.forget(p.UID)
	case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // a budget, or several
		e.held.hold(p.UID, holdup{"held", refusal(err)})
		e.log.V(1).Info("eviction held back", "pod", p.Namespace+"/"+p.Name, "reason", err.Error())
	default:
		e.refuse(p, eviction, err)
	}
}

// noCode is the code of a request that got no response.
const noCode = "error"

func code(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusCreated)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return noCode
}
