// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/controller/events"
)

const (
	// surgeTimeout is how long a replacement may take to become ready before the old pod is
	// evicted all the same: time for a node to launch, an image to be pulled and the pod to start.
	surgeTimeout = 5 * time.Minute
	// minSurgeTime is the least time in which a replacement can become ready: with less left, the
	// pod is evicted at once.
	minSurgeTime = time.Minute
	// maxSurges bounds how many surges are remembered; others are recorded in
	// their Deployments alone.
	maxSurges = 1 << 12
)

// Surges drains the only pod of a Deployment that asks for it without downtime: not by an eviction
// but by a rolling restart, which deletes the old pod once the new one is ready. The Deployment
// records that a restart began; Surges remembers the rest only to give up in time.
//
// All exported fields but Namespaces are required.
type Surges struct {
	Client client.Client
	// Live reads past the cache, which does not hold Deployments.
	Live   client.Reader
	Events *events.Recorder
	Log    logr.Logger
	// Namespaces are those in which Deployments are restarted, which karve's role has to permit;
	// access.EveryNamespace stands for all. Nil: none.
	Namespaces []string
	// Supersede is called with each pod whose replacement is being created, before it exists: free
	// capacity need not be found for both.
	Supersede func(*corev1.Pod)

	mu     sync.Mutex
	states map[types.UID]*surge // by old pod
}

// surge is the state of one pod's surge. If it is lost, the Deployment is read again, which at
// worst causes one more restart.
type surge struct {
	since     time.Time
	restarted bool // by this process
	givenUp   bool // it was given up
}

// Advance takes one step of the pod's surge and returns what the pod waits for; while that is not
// empty the pod must not be evicted. A zero deadline means that there is none.
func (s *Surges) Advance(ctx context.Context, p *corev1.Pod, deadline time.Time) (waitsFor string, err error) {
	if s == nil || s.givenUp(p) || !ready(p) {
		return "", nil // a pod that is not ready serves no traffic
	}
	d, rs, err := s.ownersOf(ctx, p)
	if err != nil || d == nil || !s.requested(d, p) {
		return "", err
	}
	state := s.stateOf(d, p)
	why := s.whyGiveUp(d, rs, state)
	if why == "" && isNewest(d, rs) {
		why, err = s.restart(ctx, d, p, deadline)
	}
	if err != nil {
		return "", err
	}
	if why != "" {
		s.giveUp(d, p, why)
		return "", nil
	}
	s.Supersede(p)
	return "its successor, which Deployment " + d.Name + " rolls out", nil
}

// CanSurge reports whether a drain of the pod's node would restart its Deployment, as far as that
// is known beforehand.
func (s *Surges) CanSurge(ctx context.Context, p *corev1.Pod) (bool, error) {
	if s == nil || s.givenUp(p) || !ready(p) {
		return false, nil
	}
	d, rs, err := s.ownersOf(ctx, p)
	if err != nil || d == nil || !s.requested(d, p) || s.whyUnfit(d) != "" || !isNewest(d, rs) && rolloutFailure(d) != "" {
		return false, err
	}
	why, err := s.singleNodeVolume(ctx, p)
	return why == "" && err == nil, err
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ownersOf finds the Deployment and the ReplicaSet of the pod; both nil when it has
// none, or when they are deleted or being deleted.
func (s *Surges) ownersOf(ctx context.Context, p *corev1.Pod) (*appsv1.Deployment, *appsv1.ReplicaSet, error) {
	rs, d := &appsv1.ReplicaSet{}, &appsv1.Deployment{}
	if found, err := s.owner(ctx, p, "ReplicaSet", rs); err != nil || !found {
		return nil, nil, err
	}
	if found, err := s.owner(ctx, rs, "Deployment", d); err != nil || !found {
		return nil, nil, err
	}
	return d, rs, nil
}

// owner reads the controller of an object, if it is of that kind of apps/v1 and not being deleted.
func (s *Surges) owner(ctx context.Context, of client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOf(of)
	if ref == nil || ref.APIVersion != appsv1.SchemeGroupVersion.String() || ref.Kind != kind {
		return false, nil
	}
	key := client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}
	if err := s.Live.Get(ctx, key, into); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %s %s, the owner of %s: %w", kind, key, of.GetName(), err)
	}
	return into.GetUID() == ref.UID && into.GetDeletionTimestamp() == nil, nil
}

// requested reports whether the Deployment asks for a surge and has only this pod. A Deployment
// that was scaled up since its restart counts, too.
func (s *Surges) requested(d *appsv1.Deployment, p *corev1.Pod) bool {
	switch value, ok := d.Annotations[surgeAnnotation]; {
	case !ok, value == "false":
		return false
	case value != "true":
		s.Events.Publish(events.Event{About: d, Warning: true, Reason: "InvalidSurge",
			Message: fmt.Sprintf("The annotation %s is %q; it may be true or false. Pods are evicted as if it were false", surgeAnnotation, value)})
		return false
	}
	_, forThisPod := restartedFor(d, p.UID)
	return forThisPod || d.Spec.Replicas == nil || *d.Spec.Replicas == 1
}

// whyGiveUp returns why the pod is evicted without waiting for its replacement; empty while it
// waits.
func (s *Surges) whyGiveUp(d *appsv1.Deployment, rs *appsv1.ReplicaSet, state surge) string {
	switch {
	case s.whyUnfit(d) != "":
		return s.whyUnfit(d)
	case state.since.IsZero():
		return "too many other surges are under way"
	case time.Since(state.since) >= surgeTimeout:
		return fmt.Sprintf("no new pod was ready within %s", surgeTimeout)
	case !isNewest(d, rs):
		return rolloutFailure(d)
	case state.restarted:
		return "its rollout was undone"
	}
	return ""
}

// whyUnfit returns why the Deployment is not restarted, whatever else is true; empty when it may be.
func (s *Surges) whyUnfit(d *appsv1.Deployment) string {
	if !slices.Contains(s.Namespaces, d.Namespace) && !slices.Contains(s.Namespaces, access.EveryNamespace) {
		return fmt.Sprintf("karve restarts no Deployment in namespace %s; name it in --surge-namespaces, of karve controller and of karve rbac", d.Namespace)
	}
	return whyUnfit(d)
}

// restart restarts the Deployment, or returns why it must not.
func (s *Surges) restart(ctx context.Context, d *appsv1.Deployment, p *corev1.Pod, deadline time.Time) (why string, err error) {
	if left := time.Until(deadline); !deadline.IsZero() && left < minSurgeTime+time.Duration(graceSeconds(p))*time.Second {
		return fmt.Sprintf("the node must be gone in %s", left.Round(time.Second)), nil
	}
	if why, err := s.singleNodeVolume(ctx, p); why != "" || err != nil {
		return why, err
	}
	s.Supersede(p) // before the new pod exists: capacity for one of them is enough
	stored := d.DeepCopy()
	recordRestart(d, p, time.Now())
	err = s.Client.Patch(ctx, d, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the Deployment changed
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "the API server does not let karve restart it: " + err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("restarting Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	s.update(p.UID, func(state *surge) { state.restarted = true })
	s.Events.Publish(events.Event{About: d, Reason: "Surged",
		Message: fmt.Sprintf("Began a rolling restart: node %s is being drained, and the only pod, %s, leaves it once a new one is ready elsewhere", p.Spec.NodeName, p.Name)})
	s.Log.Info("restarted deployment", "deployment", d.Namespace+"/"+d.Name, "pod", p.Name, "node", p.Spec.NodeName)
	return "", nil
}

// singleNodeVolume describes a volume that keeps the pod's replacement from starting on another
// node while the pod runs.
func (s *Surges) singleNodeVolume(ctx context.Context, p *corev1.Pod) (string, error) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		pvc := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		if err := s.Live.Get(ctx, key, pvc); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading volume claim %s: %w", key, err)
		}
		if !slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteMany) && !slices.Contains(pvc.Spec.AccessModes, corev1.ReadOnlyMany) {
			return fmt.Sprintf("its volume claim %s can be mounted on one node at a time", pvc.Name), nil
		}
	}
	return "", nil
}

// giveUp records that the pod is evicted instead, and publishes one event about it.
func (s *Surges) giveUp(d *appsv1.Deployment, p *corev1.Pod, why string) {
	s.update(p.UID, func(state *surge) { state.givenUp = true })
	s.Events.Publish(events.Event{About: d, Warning: true, Reason: "SurgeFailed",
		Message: fmt.Sprintf("Pod %s is evicted from node %s without waiting for a successor: %s", p.Name, p.Spec.NodeName, why)})
	s.Log.Info("evicting without a surge", "deployment", d.Namespace+"/"+d.Name, "pod", p.Name, "reason", why)
}

func (s *Surges) givenUp(p *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[p.UID]
	return state != nil && state.givenUp
}

// stateOf returns the state of the pod's surge, which begins now if there is none. The
// zero surge means that no more surges can be remembered.
func (s *Surges) stateOf(d *appsv1.Deployment, p *corev1.Pod) surge {
	var copied surge
	s.update(p.UID, func(state *surge) {
		if at, forThisPod := restartedFor(d, p.UID); forThisPod {
			state.since = at // perhaps written before a restart of karve
		}
		copied = *state
	})
	return copied
}

// update changes the state of the pod's surge, which begins now if there is none.
func (s *Surges) update(pod types.UID, change func(*surge)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states == nil {
		s.states = map[types.UID]*surge{}
	}
	if len(s.states) >= maxSurges {
		maps.DeleteFunc(s.states, func(_ types.UID, k *surge) bool { return time.Since(k.since) > 2*surgeTimeout })
	}
	state := s.states[pod]
	if state == nil && len(s.states) < maxSurges {
		state = &surge{since: time.Now()}
		s.states[pod] = state
	}
	if state != nil {
		change(state)
	}
}
