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
	// sequentialFor is how long pods of a node are evicted one by one; maxParallelEvictions is how
	// many evictions are in flight when that is not quick enough.
	sequentialFor, maxParallelEvictions = 2 * time.Second, 20
	// stuckAfter is how long a pod may outlive its own deletion before it stops counting.
	stuckAfter = time.Minute
)

// Evictor evicts pods. It remembers which requests were refused, so as not to repeat them too
// soon; after a restart they are repeated at once, which is harmless.
type Evictor struct {
	// Surges moves pods that must not leave before their replacements are ready; nil
	// means that no pod surges.
	Surges *Surges
	// BeforeRemoval is called with each pod before its eviction or deletion is requested, so that
	// free capacity can be found for its replacement; nil when it is not needed.
	BeforeRemoval func(*corev1.Pod)

	client  client.Client
	events  *events.Recorder
	metrics *metrics.Set
	log     logr.Logger

	evictionBackoffs backoffs // pods whose eviction was refused, or which wait for their replacement
	deletionBackoffs backoffs // pods whose deletion, past their node's deadline, was refused
}

// NewEvictor returns an Evictor that has evicted no pod yet.
func NewEvictor(c client.Client, e *events.Recorder, m *metrics.Set, log logr.Logger) *Evictor {
	return &Evictor{client: c, events: e, metrics: m, log: log}
}

// Drain takes one step of draining the node and returns the pods that it still waits for. From
// the deadline less a pod's own grace period on, the pod is deleted, whatever protects it; a zero
// deadline means that there is none.
func (e *Evictor) Drain(ctx context.Context, node *corev1.Node, deadline time.Time) ([]*corev1.Pod, error) {
	pods, err := lookup.PodsOn(ctx, e.client, node.Name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_, all := groupByOrder(pods, now)
	e.deleteExpiring(ctx, all, deadline, now)
	pods, _ = e.splitUndeletable(pods, deadline)
	groups, waiting := groupByOrder(pods, now)
	for _, group := range groups {
		if len(group) > 0 { // later groups wait until this one has left
			e.evict(ctx, largestFirst(group, node), deadline)
			return waiting, ctx.Err()
		}
	}
	return nil, nil
}

// groupByOrder groups the pods that the drain waits for in the order in which the groups are
// evicted: critical pods after others, and pods of DaemonSets after others of the same priority.
func groupByOrder(pods []*corev1.Pod, now time.Time) (groups [4][]*corev1.Pod, waiting []*corev1.Pod) {
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
	return p.DeletionTimestamp == nil || now.Before(p.DeletionTimestamp.Add(stuckAfter))
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

// deleteExpiring deletes, across all groups, the pods whose own grace period would not fit before
// the deadline at the next step of the drain: each gets its grace period, or the time that is
// left.
func (e *Evictor) deleteExpiring(ctx context.Context, pods []*corev1.Pod, deadline, now time.Time) {
	if deadline.IsZero() {
		return
	}
	for _, p := range pods {
		grace := time.Duration(graceSeconds(p)) * time.Second
		if now.Before(deadline.Add(-grace-drainPoll)) || p.DeletionTimestamp != nil && !p.DeletionTimestamp.After(deadline) || !e.deletionBackoffs.due(p.UID, now) {
			continue
		}
		e.deleteExpired(ctx, p, deadline, now)
	}
}

// deleteExpired deletes a pod to meet its node's deadline.
func (e *Evictor) deleteExpired(ctx context.Context, p *corev1.Pod, deadline, now time.Time) {
	e.beforeRemoval(p)
	left := min(max(int64(deadline.Sub(now)/time.Second), 1), max(graceSeconds(p), 1))
	err := e.client.Delete(ctx, p, client.GracePeriodSeconds(left), client.Preconditions{UID: &p.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		e.recordRefusal(p, deletion, err)
		return
	}
	e.deletionBackoffs.reset(p.UID)
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
		return p.DeletionTimestamp != nil || kube.DoNotDisrupt(p, now) || !e.evictionBackoffs.due(p.UID, now)
	})
	for len(rest) > 0 && time.Since(now) < sequentialFor {
		e.evictOrSurge(ctx, rest[0], deadline)
		rest = rest[1:]
	}
	e.evictInParallel(ctx, rest, deadline)
}

// evictInParallel requests many evictions in parallel.
func (e *Evictor) evictInParallel(ctx context.Context, pods []*corev1.Pod, deadline time.Time) {
	var group panics.Group
	group.SetLimit(maxParallelEvictions)
	for _, p := range pods {
		group.Go(func() error { e.evictOrSurge(ctx, p, deadline); return nil })
	}
	_ = group.Wait() // refusals are recorded with the pod
}

// evictOrSurge evicts the pod unless it waits for its replacement.
func (e *Evictor) evictOrSurge(ctx context.Context, p *corev1.Pod, deadline time.Time) {
	waitsFor, err := e.Surges.Advance(ctx, p, deadline)
	switch {
	case err != nil:
		e.evictionBackoffs.delay(p.UID, waitReason{"unknown", "whether it can surge is not known: " + err.Error()})
		e.log.Error(err, "cannot determine whether a pod can surge", "pod", p.Namespace+"/"+p.Name)
	case waitsFor != "":
		e.evictionBackoffs.delay(p.UID, waitReason{"held", "waits for " + waitsFor})
	default:
		e.requestEviction(ctx, p)
	}
}

func (e *Evictor) beforeRemoval(p *corev1.Pod) {
	if e.BeforeRemoval != nil {
		e.BeforeRemoval(p)
	}
}

// requestEviction requests the eviction of a pod and records the answer.
func (e *Evictor) requestEviction(ctx context.Context, p *corev1.Pod) {
	e.beforeRemoval(p)
	err := e.client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	e.metrics.Evictions.WithLabelValues(statusCode(err)).Inc()
	switch {
	case err == nil:
		e.evictionBackoffs.reset(p.UID)
		e.metrics.PodsDrained.WithLabelValues("Evicted").Inc()
		e.events.Publish(events.Event{About: p, Reason: "Evicted", Key: "evicted", Message: "Evicted pod: its node is being removed"})
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // deleted, or another of its name
		e.evictionBackoffs.reset(p.UID)
	case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // a budget, or several
		e.evictionBackoffs.delay(p.UID, waitReason{"held", refusalMessage(err)})
		e.log.V(1).Info("eviction held back", "pod", p.Namespace+"/"+p.Name, "reason", err.Error())
	default:
		e.recordRefusal(p, eviction, err)
	}
}

// noStatusCode is the code of a request that got no response.
const noStatusCode = "error"

func statusCode(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusCreated)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return noStatusCode
}
