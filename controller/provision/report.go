// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// controllerName is the provisioner's name in metrics.
const controllerName = "provisioner"

// reporter reports a batch: by events on its pods and NodePools, by metrics, and in the log.
type reporter struct {
	mirror  *state.Mirror
	buffers *buffer.Keeper
	events  *events.Recorder
	metrics *metrics.Set
	log     logr.Logger
}

// decided logs what a plan launches: the price is that of whole nodes, the list price that of their
// instances alone.
func (r *reporter) decided(plan schedule.Plan) {
	if len(plan.Launches) == 0 {
		return
	}
	r.log.Info("computed new nodeclaim(s) to fit pod(s)", append([]any{"nodeclaims", len(plan.Launches), "pods", podCount(plan),
		"price", plan.Price().USD(), "list-price", plan.ListPrice().USD(), "price-lower-bound", plan.LowerBound.USD()}, append(preferences(plan.Preferences), cutShort(plan.CutShort)...)...)...)
}

// cutShort returns the log values about the searches of a plan that were cut short; none when there
// are none.
func cutShort(searches []schedule.CutShort) []any {
	if len(searches) == 0 {
		return nil
	}
	return []any{"cut-short", searches}
}

func podCount(plan schedule.Plan) int {
	n := 0
	for _, l := range plan.Launches {
		n += len(l.Pods)
	}
	return n
}

// preferences returns the log values about the pods' preferences; none when no pod has any.
func preferences(p schedule.Preferences) []any {
	if p.Asked == 0 {
		return nil
	}
	return []any{"preferences-asked", p.Asked, "preferences-honoured", p.Honoured, "preferences-cost", p.Cost.USD()}
}

// notNeeded logs a launch that was planned for pods none of which needs it any more.
func (r *reporter) notNeeded(l schedule.Launch) {
	r.log.Info("no nodeclaim created, its pods need none any more", "nodepool", l.Pool, "pods", len(l.Pods))
}

// overLimit logs that a launch was dropped because of a limit.
func (r *reporter) overLimit(l schedule.Launch, limit *state.LimitError) {
	r.log.Info("no nodeclaim created, its nodepool reached a limit meanwhile", "nodepool", l.Pool, "limit", limit.Limit, "pods", len(l.Pods))
}

// held publishes an event on the NodePool of a launch that the guard holds back; the guard logs it.
func (r *reporter) held(l schedule.Launch, held *guard.Error) {
	if pool := r.mirror.Pool(l.Pool); pool != nil {
		r.events.Publish(events.Event{About: pool, Warning: true, Reason: "LaunchesHeld", Key: "guard", Every: time.Minute,
			Message: "Nodes for pending pods are launched later: " + held.Error()})
	}
}

// claimCreated reports a NodeClaim that was created.
func (r *reporter) claimCreated(claim string, l schedule.Launch) {
	r.metrics.ClaimsCreated.WithLabelValues("provisioned", l.Pool, strconv.FormatBool(len(l.Relaxed) > 0)).Inc()
	r.log.Info("created nodeclaim", append([]any{"nodepool", l.Pool, "nodeclaim", claim, "pods", len(l.Pods),
		"requests", l.Requests, "offerings", len(l.Offerings)}, offeringValues(l)...)...)
	r.nominated(l.Pods, claim)
}

// offeringValues returns the log values about the offering that is tried first, and those that
// would be tried instead.
func offeringValues(l schedule.Launch) []any {
	first := l.Offerings[0]
	words := []any{"instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD(), "list-price", first.ListPrice().USD()}
	if i := slices.IndexFunc(l.Offerings, func(c offering.Ref) bool { return c.Type != first.Type }); i >= 0 {
		words = append(words, "runner-up", l.Offerings[i].Type, "runner-up-price", l.Offerings[i].Price.USD())
	}
	if len(l.RunnersUp) == 0 {
		return words
	}
	others := make([]string, 0, len(l.RunnersUp))
	for _, r := range l.RunnersUp {
		others = append(others, fmt.Sprintf("%s in %s (%s): %+.4f/h, %s: %s", r.Type, r.Zone, r.CapacityType, r.More.USD(), r.Because, r.Why))
	}
	return append(words, "runners-up", others)
}

// nominated publishes on each of the pods that is nominated to the node that it should be scheduled
// there.
func (r *reporter) nominated(pods []cluster.PodRef, node string) {
	name, uids := r.mirror.DescribeNode(node), map[types.UID]bool{}
	for _, pod := range r.mirror.NominatedTo(node) {
		uids[pod.UID] = true
	}
	for _, ref := range pods {
		if pod := r.mirror.EffectivePod(ref.UID); pod != nil && uids[pod.UID] {
			r.events.Publish(nomination(pod, name))
		}
	}
}

// nomination is the event that says where a pod should be scheduled.
func nomination(pod *corev1.Pod, node string) events.Event {
	return events.Event{About: pod, Reason: "Nominated", Message: "Pod should schedule on: " + node}
}

// ReportNominated publishes on a pod, by UID, that it should be scheduled on the node with the key.
// No decision has it: it takes the place of an evicted pod that was nominated there.
func ReportNominated(recorder *events.Recorder, mirror *state.Mirror, uid, node string) {
	if pod := mirror.Pod(uid); pod != nil {
		recorder.Publish(nomination(pod, mirror.DescribeNode(node)))
	}
}

// finished reports the rest of a plan that was carried out: the nominations to nodes that were
// there before, and the pods that no node can run.
func (r *reporter) finished(plan schedule.Plan, took time.Duration) {
	for _, n := range plan.Nominations {
		if pods := r.buffers.Real(n.Pods); len(pods) > 0 {
			r.nominated(pods, n.Node)
		}
	}
	unplaced, ignored := 0, 0
	for _, u := range plan.Unplaced {
		if u.Pods = r.buffers.Real(u.Pods); len(u.Pods) == 0 {
			continue
		}
		if silent(u.Because) {
			ignored += len(u.Pods)
			continue
		}
		unplaced += len(u.Pods)
		r.explain(u)
	}
	r.metrics.CountCutShort(plan.CutShort)
	r.metrics.Scheduling.WithLabelValues(controllerName).Observe(took.Seconds())
	r.metrics.UnschedulablePods.WithLabelValues(controllerName).Set(float64(unplaced))
	r.metrics.IgnoredPods.Set(float64(ignored))
	if len(plan.Launches) > 0 {
		r.metrics.PlanPrice.Set(plan.Price().USD())
		r.metrics.PlanListPrice.Set(plan.ListPrice().USD())
		r.metrics.PlanBound.Set(plan.LowerBound.USD())
	}
}

// explain publishes on each pod of the group why no node can run it.
func (r *reporter) explain(u schedule.Unplaced) {
	text := "Failed to schedule pod, " + Explain(u)
	data := map[string]string{}
	if funnels := funnelData(u.Funnels); funnels != "" {
		data[kube.FunnelsAnnotation] = funnels
	}
	if facts := factData(u.Facts); facts != "" {
		data[kube.FactsAnnotation] = facts
	}
	for _, ref := range u.Pods {
		pod := r.mirror.Pod(ref.UID)
		if pod == nil {
			continue
		}
		r.events.Publish(events.Event{
			About: pod, Warning: true, Reason: "FailedScheduling", Message: text,
			Key: eventKey(u), Every: 5 * time.Minute, Annotations: data,
		})
	}
	r.log.V(1).Info("could not schedule pod(s)", "pods", len(u.Pods), "sample", u.Pods[0].Namespace+"/"+u.Pods[0].Name, "reason", text)
	r.explainPools(u.Funnels)
}

// explainPools publishes on a pool that its own requirements leave no instance type.
func (r *reporter) explainPools(funnels []reason.Funnel) {
	for _, f := range funnels {
		text := noInstanceTypes(f)
		pool := r.mirror.Pool(f.Pool)
		if text == "" || pool == nil {
			continue
		}
		r.events.Publish(events.Event{About: pool, Warning: true, Reason: "NoCompatibleInstanceTypes", Message: text, Every: time.Minute})
	}
}
