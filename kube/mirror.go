package kube

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/internal/panics"
)

const (
	// unseenFor is how long a NodeClaim that karve created counts although no watch has shown it:
	// longer than any watch lags, and short enough that a NodeClaim deleted before any watch
	// showed it does not hold pods for ever.
	unseenFor = time.Minute
	// StuckAfter is the age from which a node that is not initialized is taken to stay so: no pod
	// is promised capacity there any more.
	StuckAfter = 15 * time.Minute
)

// Mirror keeps a cluster.Snapshot current from watch events. It holds the API objects it was
// shown, which must not be changed, and for each node the pods that were promised capacity there.
// Those pods count as bound until the scheduler binds them or the promise lapses, so that no two
// batches launch a node for the same pod.
type Mirror struct {
	// Class is the kind of node class that this installation serves. Pools with another kind of
	// node class belong to another provisioner in the same cluster and are ignored. Set Class
	// before the first event; the zero kind takes every pool.
	Class schema.GroupKind
	// OnUrgent is called, before wake, with each pod whose node is interrupted by the cloud; nil
	// is allowed. Like wake it must not call back into the Mirror. Set it before the first event.
	OnUrgent func(pod string)

	// Panics receives the panics of event handlers; the object that caused one is left out. Nil
	// recovers nothing. Set it before the first event.
	Panics *panics.Reporter
	// LeftOut is called with each object that is left out of the Snapshot, and why; nil is
	// allowed. It must not call back into the Mirror.
	LeftOut func(o client.Object, because *panics.Panic)

	wake     func(pod string)
	revision atomic.Uint64

	feeds []*feed

	mu sync.Mutex // guards everything below
	// spoilt is set while the state is being changed. If it is already set when the lock is
	// taken, the last change ended with a panic and the state cannot be relied on.
	spoilt  bool
	leftOut map[leftOutKey]*leftOut
	state
}

// state is what a Mirror knows of the cluster. It can be rebuilt; see restore.
type state struct {
	builder *cluster.Builder
	footing footing // of builder
	convert Converter

	pods       map[string]*corev1.Pod // by UID
	podsOn     map[string]map[string]bool
	nodes      map[string]*corev1.Node
	claims     map[string]*karpv1.NodeClaim
	pools      map[string]*karpv1.NodePool
	daemonSets map[string]*daemonSet // by UID
	// daemonOf is the UID of the DaemonSet of each DaemonSet pod, by the pod's UID.
	daemonOf map[string]string

	nodeOf  map[string]string          // provider ID → node name
	nodesOf map[string]map[string]bool // provider ID → names of all nodes that have it
	claimOf map[string]string          // provider ID → claim name
	unseen  map[string]time.Time

	catalogs  map[string]*Catalog // by node class
	offerings map[string]memo     // by claim, while its instance type is not chosen

	// The values last written to the builder: an event that changes none of them is skipped, and
	// renew writes them again.
	worldPods   map[string]cluster.Pod
	worldNodes  map[string]cluster.Node
	virtualPods map[string]cluster.Pod // virtual pods, by UID; see SetVirtualPods
	namespaces  map[string]map[string]string
	settings    cluster.Settings

	promises map[string]string          // pod UID → node key
	promised map[string]map[string]bool // node key → pod UIDs
	until    map[string]time.Time       // node key → end of its nomination
	activity map[string]time.Time       // node name → last time a pod came or went
	// moving has the keys of nodes that will be deleted; see BeginMove.
	moving map[string]bool

	superseded        map[string]bool // UIDs of pods whose replacements exist or are on their way
	replacements      replacements
	interruptedOwners interruptedOwners

	podBudgets *PodBudgets
	podsIn     map[string]map[string]bool // namespace → UIDs
	held       map[string]bool            // UIDs of pods that will not be evicted
	unjudged   map[string]map[label]bool  // namespace → labels of pods that judge looks at again
	lapses     map[string]time.Time       // UIDs of pods → end of their do-not-disrupt
	misread    map[string]bool            // UIDs of pods, do-not-disrupt unreadable

	storage *Storage
	mounts  map[types.NamespacedName]map[string]bool // claim → UIDs of the pods that mount it
	claimed map[string]map[types.NamespacedName]bool // PersistentVolume → claims that name it
	limits  *attachLimits
	relearn bool                        // limits changed since the catalogs were lowered to them
	budgets map[string]map[string]int64 // by node class, as last set
}

type memo struct {
	of      *Catalog
	choices []offering.Ref
}

// NewMirror returns a Mirror of an empty cluster. wake is called with the UID of each pod that
// starts to need capacity, and with "" when something else changed that a new plan may depend on,
// such as a NodePool. It must not call back into the Mirror. Nil is allowed.
func NewMirror(wake func(pod string)) *Mirror {
	if wake == nil {
		wake = func(string) {}
	}
	return &Mirror{wake: wake, leftOut: map[leftOutKey]*leftOut{}, state: newState()}
}

func newState() state {
	return state{
		builder:           cluster.NewBuilder(),
		pods:              map[string]*corev1.Pod{},
		podsOn:            map[string]map[string]bool{},
		nodes:             map[string]*corev1.Node{},
		claims:            map[string]*karpv1.NodeClaim{},
		pools:             map[string]*karpv1.NodePool{},
		daemonSets:        map[string]*daemonSet{},
		daemonOf:          map[string]string{},
		nodeOf:            map[string]string{},
		nodesOf:           map[string]map[string]bool{},
		claimOf:           map[string]string{},
		unseen:            map[string]time.Time{},
		catalogs:          map[string]*Catalog{},
		offerings:         map[string]memo{},
		worldPods:         map[string]cluster.Pod{},
		worldNodes:        map[string]cluster.Node{},
		virtualPods:       map[string]cluster.Pod{},
		namespaces:        map[string]map[string]string{},
		promises:          map[string]string{},
		promised:          map[string]map[string]bool{},
		until:             map[string]time.Time{},
		activity:          map[string]time.Time{},
		superseded:        map[string]bool{},
		replacements:      newReplacements(),
		interruptedOwners: interruptedOwners{},
		moving:            map[string]bool{},
		podBudgets:        NewPodBudgets(),
		podsIn:            map[string]map[string]bool{},
		held:              map[string]bool{},
		unjudged:          map[string]map[label]bool{},
		lapses:            map[string]time.Time{},
		misread:           map[string]bool{},

		storage: NewStorage(),
		mounts:  map[types.NamespacedName]map[string]bool{},
		claimed: map[string]map[types.NamespacedName]bool{},
		limits:  newAttachLimits(),
		budgets: map[string]map[string]int64{},
	}
}

// View calls f with the current Snapshot, which is valid until f returns.
func (m *Mirror) View(f func(*cluster.Snapshot)) {
	m.change(func() news {
		m.applyLearnt()
		woke := append(m.judge(), m.lapse(time.Now())...)
		f(m.builder.Snapshot())
		return news{woke: woke}
	})
}

// SetNamespace adds or replaces a Namespace: pod selectors may select by its labels.
func (m *Mirror) SetNamespace(n *corev1.Namespace) {
	m.change(func() news { return m.setNamespace(n) })
}

func (m *Mirror) setNamespace(n *corev1.Namespace) news {
	m.moved()
	m.namespaces[n.Name] = n.Labels
	m.builder.SetNamespace(n.Name, n.Labels)
	return news{}
}

// RemoveNamespace forgets a Namespace.
func (m *Mirror) RemoveNamespace(n *corev1.Namespace) {
	m.change(func() news { return m.removeNamespace(n) })
}

func (m *Mirror) removeNamespace(n *corev1.Namespace) news {
	m.moved()
	delete(m.namespaces, n.Name)
	m.builder.RemoveNamespace(n.Name)
	return news{}
}

// SetSettings sets the operator's settings.
func (m *Mirror) SetSettings(s cluster.Settings) {
	m.change(func() news {
		m.moved()
		m.settings = s
		m.builder.SetSettings(s)
		return news{}
	})
}

// Pod returns the pod with that UID, or nil.
func (m *Mirror) Pod(uid string) *corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// Pool returns the NodePool of that name, or nil.
func (m *Mirror) Pool(name string) *karpv1.NodePool {
	m.lock()
	defer m.mu.Unlock()
	return m.pools[name]
}

// Describe formats the key of a node for people: nodeclaim/x, node/y.
func (m *Mirror) Describe(key string) string {
	m.lock()
	defer m.mu.Unlock()
	w := m.worldNodes[key]
	switch {
	case !w.Claim:
		return "node/" + key
	case w.Name == InFlightName(key):
		return "nodeclaim/" + key
	}
	return "nodeclaim/" + key + ", node/" + w.Name
}

// Nodes counts the nodes of the Snapshot, in-flight ones included.
func (m *Mirror) Nodes() int {
	m.lock()
	defer m.mu.Unlock()
	return len(m.worldNodes)
}

// Waiting counts the pods that need capacity and were promised none.
func (m *Mirror) Waiting() int {
	m.lock()
	defer m.mu.Unlock()
	n := 0
	for _, p := range m.worldPods {
		if p.Node == "" {
			n++
		}
	}
	return n
}

func set[K, M comparable](sets map[K]map[M]bool, key K, member M) {
	if sets[key] == nil {
		sets[key] = map[M]bool{}
	}
	sets[key][member] = true
}

func unset[K, M comparable](sets map[K]map[M]bool, key K, member M) {
	delete(sets[key], member)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
