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

	"github.com/karve-dev/karve/controller/events"
)

const (
	// surgeFor is how long a replacement may take to become ready before the old pod is
	// evicted all the same: time for a node, an image and a start-up.
	surgeFor = 5 * time.Minute
	// worthwhile is the least time in which a replacement can be expected: with less
	// left, the pod is evicted at once.
	worthwhile = time.Minute
	// surgesKept bounds how many surges are remembered; others are recorded in
	// their Deployments alone.
	surgesKept = 1 << 12
)

// Surges lets the only pod of a Deployment that asks for it move without a gap:
// not by an eviction but by a rolling restart, which ends the old pod once the new
// one is ready. The Deployment records that a restart began; Surges remembers the rest
// only to end waiting.
//
// All exported fields are required.
type Surges struct {
	Client client.Client
	// Live reads past the cache, which does not hold Deployments.
	Live   client.Reader
	Events *events.Recorder
	Log    logr.Logger
	// Supersede is called with each pod whose replacement is being created, before it exists: free
	// capacity need not be found for both.
	Supersede func(*corev1.Pod)

	mu    sync.Mutex
	known map[types.UID]*surge // by old pod
}

// surge is the state of moving one pod. If it is lost, the Deployment is read
// again, which at worst causes one more restart.
type surge struct {
	since time.Time
	asked bool // by this process
	over  bool // it was given up
}

// Holds takes a step of moving the pod and returns what the pod waits for; while that
// is not empty the pod must not be evicted. A zero deadline means that there is none.
func (s *Surges) Holds(ctx context.Context, p *corev1.Pod, deadline time.Time) (waitsFor string, err error) {
	if s == nil || s.givenUp(p) || !ready(p) {
		return "", nil // a pod that is not ready serves no traffic
	}
	d, rs, err := s.ownersOf(ctx, p)
	if err != nil || d == nil || !s.wanted(d, p) {
		return "", err
	}
	known := s.recall(d, p)
	why := s.hopeless(d, rs, known)
	if why == "" && newest(d, rs) {
		why, err = s.begin(ctx, d, p, deadline)
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

// Serves reports whether the pod would leave by a surge if its node were drained now, as
// far as that is known beforehand.
func (s *Surges) Serves(ctx context.Context, p *corev1.Pod) (bool, error) {
	if s == nil || s.givenUp(p) || !ready(p) {
		return false, nil
	}
	d, rs, err := s.ownersOf(ctx, p)
	if err != nil || d == nil || !s.wanted(d, p) || unfit(d) != "" || !newest(d, rs) && failed(d) != "" {
		return false, err
	}
	why, err := s.tied(ctx, p)
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

// wanted reports whether the Deployment asks for a surge and has only this pod. A Deployment
// that was scaled up since its restart counts, too.
func (s *Surges) wanted(d *appsv1.Deployment, p *corev1.Pod) bool {
	switch value, ok := d.Annotations[surgeAnnotation]; {
	case !ok, value == "false":
		return false
	case value != "true":
		s.Events.Publish(events.Event{About: d, Warning: true, Reason: "InvalidSurge",
			Message: fmt.Sprintf("The annotation %s is %q; it may be true or false. Pods are evicted as if it were false", surgeAnnotation, value)})
		return false
	}
	_, ours := stampedFor(d, p.UID)
	return ours || d.Spec.Replicas == nil || *d.Spec.Replicas == 1
}

// hopeless returns why the replacement of the pod need not be waited for; empty while it must be.
func (s *Surges) hopeless(d *appsv1.Deployment, rs *appsv1.ReplicaSet, known surge) string {
	switch {
	case unfit(d) != "":
		return unfit(d)
	case known.since.IsZero():
		return "too many other surges are under way"
	case time.Since(known.since) >= surgeFor:
		return fmt.Sprintf("no new pod was ready within %s", surgeFor)
	case !newest(d, rs):
		return failed(d)
	case known.asked:
		return "its rollout was undone"
	}
	return ""
}

// begin restarts the Deployment, or returns why it must not.
func (s *Surges) begin(ctx context.Context, d *appsv1.Deployment, p *corev1.Pod, deadline time.Time) (why string, err error) {
	if left := time.Until(deadline); !deadline.IsZero() && left < worthwhile+time.Duration(graceSeconds(p))*time.Second {
		return fmt.Sprintf("the node must be gone in %s", left.Round(time.Second)), nil
	}
	if why, err := s.tied(ctx, p); why != "" || err != nil {
		return why, err
	}
	s.Supersede(p) // before the new pod exists: capacity for one of them is enough
	stored := d.DeepCopy()
	stamp(d, p, time.Now())
	err = s.Client.Patch(ctx, d, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the Deployment changed
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "the API server does not let karve restart it: " + err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("restarting Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	s.remember(p.UID, func(known *surge) { known.asked = true })
	s.Events.Publish(events.Event{About: d, Reason: "Surged",
		Message: fmt.Sprintf("Began a rolling restart: node %s is being drained, and the only pod, %s, leaves it once a new one is ready elsewhere", p.Spec.NodeName, p.Name)})
	s.Log.Info("restarted deployment", "deployment", d.Namespace+"/"+d.Name, "pod", p.Name, "node", p.Spec.NodeName)
	return "", nil
}

// tied names a volume that keeps the pod's replacement from starting on another node
// while the pod runs.
func (s *Surges) tied(ctx context.Context, p *corev1.Pod) (string, error) {
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

// giveUp leaves the pod to eviction, and publishes one event about it.
func (s *Surges) giveUp(d *appsv1.Deployment, p *corev1.Pod, why string) {
	s.remember(p.UID, func(known *surge) { known.over = true })
	s.Events.Publish(events.Event{About: d, Warning: true, Reason: "SurgeFailed",
		Message: fmt.Sprintf("Pod %s is evicted from node %s without waiting for a successor: %s", p.Name, p.Spec.NodeName, why)})
	s.Log.Info("evicting without a surge", "deployment", d.Namespace+"/"+d.Name, "pod", p.Name, "reason", why)
}

func (s *Surges) givenUp(p *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[p.UID]
	return known != nil && known.over
}

// recall returns the state of the pod's surge, which begins now if there is none. The
// zero surge means that no more surges can be remembered.
func (s *Surges) recall(d *appsv1.Deployment, p *corev1.Pod) surge {
	var copied surge
	s.remember(p.UID, func(known *surge) {
		if at, ours := stampedFor(d, p.UID); ours {
			known.since = at // perhaps written before a restart of karve
		}
		copied = *known
	})
	return copied
}

func (s *Surges) remember(pod types.UID, change func(*surge)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[types.UID]*surge{}
	}
	if len(s.known) >= surgesKept {
		maps.DeleteFunc(s.known, func(_ types.UID, k *surge) bool { return time.Since(k.since) > 2*surgeFor })
	}
	known := s.known[pod]
	if known == nil && len(s.known) < surgesKept {
		known = &surge{since: time.Now()}
		s.known[pod] = known
	}
	if known != nil {
		change(known)
	}
}
