package kube

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/world"
)

const (
	// unseenFor is how long a claim of our own making counts although no watch has
	// shown it: longer than any watch lags, short enough that a claim deleted before
	// it was ever seen does not host pods for ever.
	unseenFor = time.Minute
	// StuckAfter is when a node that is not initialized counts as one that never
	// will be: nothing is promised there any more.
	StuckAfter = 15 * time.Minute
)

// Mirror keeps a World current from watch events. It holds the API objects it
// was shown (which nobody may change) and, per node, the pods that were promised
// room there: those count as bound until the scheduler binds them or the promise
// lapses, so that no batch buys twice for one pod.
type Mirror struct {
	// Class is the kind of node class whose pools are ours; those of another
	// provisioner in the same cluster are not bought for. Set it before the first
	// event; the zero kind takes every pool.
	Class schema.GroupKind
	// Hurry is told, before wake is, of pods whose machine goes without being asked; nil
	// when nobody wants to know. Like wake it must not call back. Set it before the first event.
	Hurry func(pod string)

	wake     func(pod string)
	revision atomic.Uint64

	mu      sync.Mutex // guards everything below
	builder *world.Builder
	convert Converter

	pods    map[string]*corev1.Pod // by UID
	podsOn  map[string]map[string]bool
	nodes   map[string]*corev1.Node
	claims  map[string]*karpv1.NodeClaim
	pools   map[string]*karpv1.NodePool
	daemons map[string]*daemonSet // by UID

	nodeOf  map[string]string          // provider ID → node name
	nodesOf map[string]map[string]bool // provider ID → names of all nodes that have it
	claimOf map[string]string          // provider ID → claim name
	unseen  map[string]time.Time

	catalogs map[string]*Catalog // by node class
	choices  map[string]memo     // by claim, while its machine is not chosen

	// What the World was last told, so that an event which changes nothing costs nothing.
	worldPods  map[string]world.Pod
	worldNodes map[string]world.Node

	promises map[string]string          // pod UID → node key
	promised map[string]map[string]bool // node key → pod UIDs
	until    map[string]time.Time       // node key → end of its nomination
	activity map[string]time.Time       // node name → last time a pod came or went
	// departing are nodes that will be deleted, by key; see Depart.
	departing map[string]bool

	superseded map[string]bool // UIDs of pods whose successors are on their way, or there
	succession succession
	bereft     bereft

	podBudgets *PodBudgets
	podsIn     map[string]map[string]bool // namespace → UIDs
	held       map[string]bool            // UIDs of pods that the World was told stay where they are
	unjudged   map[string]map[label]bool  // namespace → labels of pods that are to be looked at again
	lapses     map[string]time.Time       // UIDs of pods that ask to be left alone until then
	misread    map[string]bool            // UIDs of pods that ask in words that nobody knows

	storage *Storage
	mounts  map[types.NamespacedName]map[string]bool // claim → UIDs of the pods that mount it
	claimed map[string]map[types.NamespacedName]bool // PersistentVolume → claims that name it
	limits  *attachLimits
	relearn bool                        // limits changed since the catalogs were lowered to them
	budgets map[string]map[string]int64 // by node class, as last set

	feeds []interface{ HasSynced() bool }
}

type memo struct {
	of      *Catalog
	choices []offer.Choice
}

// NewMirror returns a Mirror of an empty cluster. wake is called with the UID of
// each pod that starts to need room, and with "" when what can be bought changed;
// it must not call back into the Mirror. Nil is allowed.
func NewMirror(wake func(pod string)) *Mirror {
	if wake == nil {
		wake = func(string) {}
	}
	return &Mirror{
		wake:       wake,
		builder:    world.NewBuilder(),
		pods:       map[string]*corev1.Pod{},
		podsOn:     map[string]map[string]bool{},
		nodes:      map[string]*corev1.Node{},
		claims:     map[string]*karpv1.NodeClaim{},
		pools:      map[string]*karpv1.NodePool{},
		daemons:    map[string]*daemonSet{},
		nodeOf:     map[string]string{},
		nodesOf:    map[string]map[string]bool{},
		claimOf:    map[string]string{},
		unseen:     map[string]time.Time{},
		catalogs:   map[string]*Catalog{},
		choices:    map[string]memo{},
		worldPods:  map[string]world.Pod{},
		worldNodes: map[string]world.Node{},
		promises:   map[string]string{},
		promised:   map[string]map[string]bool{},
		until:      map[string]time.Time{},
		activity:   map[string]time.Time{},
		superseded: map[string]bool{},
		succession: newSuccession(),
		bereft:     bereft{},
		departing:  map[string]bool{},
		podBudgets: NewPodBudgets(),
		podsIn:     map[string]map[string]bool{},
		held:       map[string]bool{},
		unjudged:   map[string]map[label]bool{},
		lapses:     map[string]time.Time{},
		misread:    map[string]bool{},

		storage: NewStorage(),
		mounts:  map[types.NamespacedName]map[string]bool{},
		claimed: map[string]map[types.NamespacedName]bool{},
		limits:  newAttachLimits(),
		budgets: map[string]map[string]int64{},
	}
}

// View calls f with the current World, which is valid until f returns.
func (m *Mirror) View(f func(*world.World)) {
	m.mu.Lock()
	m.applyLearnt()
	woke := append(m.judge(), m.lapse(time.Now())...)
	func() {
		defer m.mu.Unlock() // even if f panics: others may go on
		f(m.builder.World())
	}()
	m.rouse(woke)
}

// SetPod adds or replaces a pod. listed says that the pod was there before the
// watch began, so that its being bound is no news.
func (m *Mirror) SetPod(p *corev1.Pod, listed bool) {
	m.mu.Lock()
	uid := string(p.UID)
	old := m.pods[uid]
	if !listed {
		m.noteActivity(old, p)
	}
	if old != nil && old.Spec.NodeName != p.Spec.NodeName {
		delete(m.podsOn[old.Spec.NodeName], uid)
	}
	m.pods[uid] = p
	m.notePod(old, p)
	m.noteMisread(uid, p)
	set(m.podsIn, p.Namespace, uid)
	if old == nil { // a pod's volumes never change
		for _, claim := range claimsOf(p) {
			set(m.mounts, claim, uid)
		}
	}
	if node := p.Spec.NodeName; node != "" {
		set(m.podsOn, node, uid)
		if old == nil || old.Spec.NodeName == "" {
			m.breakPromise(uid) // wherever it was expected, it has a node now
		}
	}
	m.noteDaemonPod(p)
	if old == nil && !listed {
		m.welcome(p)
	}
	m.enthrone(p)
	woke := m.tellPod(uid)
	woke = append(woke, m.relievePressure(p.Spec.NodeName)...)
	urgent := m.Hurry != nil && slices.Contains(woke, uid) && m.urgent(p)
	m.mu.Unlock()
	if urgent {
		m.Hurry(uid)
	}
	m.rouse(woke)
}

// RemovePod forgets a pod.
func (m *Mirror) RemovePod(p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := string(p.UID)
	if old := m.pods[uid]; old != nil {
		m.mourn(old)
		m.noteActivity(old, nil)
		delete(m.podsOn[old.Spec.NodeName], uid)
		for _, claim := range claimsOf(old) {
			unset(m.mounts, claim, uid)
		}
	}
	delete(m.pods, uid)
	delete(m.superseded, uid)
	m.bury(p)
	delete(m.lapses, uid)
	delete(m.misread, uid)
	unset(m.podsIn, p.Namespace, uid)
	m.breakPromise(uid)
	m.forgetDaemonPod(p)
	m.tellPod(uid)
}

// noteActivity stamps the node when a pod other than a DaemonSet's is bound to
// it, finishes, begins to terminate or goes.
func (m *Mirror) noteActivity(old, now *corev1.Pod) {
	either := now
	if either == nil {
		either = old
	}
	if either.Spec.NodeName == "" || OwnedByDaemonSet(either) || Static(either) {
		return
	}
	if phaseOfStay(old) != phaseOfStay(now) {
		m.activity[either.Spec.NodeName] = time.Now()
	}
}

// phaseOfStay orders a pod's stay on its node: not there, there, on its way out, gone.
func phaseOfStay(p *corev1.Pod) int {
	switch {
	case p == nil:
		return 3
	case p.Spec.NodeName == "":
		return 0
	case Terminal(p):
		return 3
	case p.DeletionTimestamp != nil:
		return 2
	}
	return 1
}

// tellPod brings the World up to date about one pod and returns its UID when it
// starts to need room.
func (m *Mirror) tellPod(uid string) []string {
	w, ok := m.podNow(uid)
	old, had := m.worldPods[uid]
	switch {
	case !ok && had:
		m.builder.RemovePod(uid)
		delete(m.worldPods, uid)
		delete(m.held, uid)
		m.moved()
		return nil
	case !ok || had && reflect.DeepEqual(old, w):
		return nil
	}
	m.builder.SetPod(w)
	m.worldPods[uid] = w
	m.moved()
	if w.Movable && had && !old.Movable && m.worldNodes[m.keyOf(w.Node)].Leaving {
		return []string{uid} // nothing holds it any more
	}
	if w.Node == "" && (!had || old.Node != "" || old.Refused != "" && w.Refused == "") {
		return []string{uid}
	}
	return nil
}

// podNow is the pod as the World should see it; false when it should not.
func (m *Mirror) podNow(uid string) (world.Pod, bool) {
	p := m.pods[uid]
	if p == nil || Terminal(p) {
		return world.Pod{}, false
	}
	if p.Spec.NodeName == "" && !Provisionable(p) && !m.expected(p) {
		return world.Pod{}, false
	}
	w := m.convert.Pod(p, time.Now())
	m.storage.Mount(&w, p)
	m.noteLapse(uid, p)
	m.noteHeld(uid, m.isHeld(p))
	w.Movable = (w.Movable && !m.held[uid] || m.losesMachine(p)) && !m.superseded[uid]
	if m.standsIn(p) {
		w.Movable, w.Terminating = true, false
	}
	if key, ok := m.promises[uid]; ok {
		w.Node, w.Movable = m.worldNodes[key].Name, true
	}
	return w, true
}

// SetNode adds or replaces a Node.
func (m *Mirror) SetNode(n *corev1.Node) {
	m.mu.Lock()
	var woke []string
	old := m.nodes[n.Name]
	m.noteNode(old, n)
	if old != nil && old.Spec.ProviderID != n.Spec.ProviderID {
		m.untie(old)
		woke = m.tellClaim(m.claimOf[old.Spec.ProviderID])
	}
	m.nodes[n.Name] = n
	m.tie(n)
	m.placeNode(n.Name, n)
	woke = append(woke, m.tellNode(n.Name)...)
	claim := m.claims[m.claimOf[n.Spec.ProviderID]]
	m.mu.Unlock()
	m.rouseFrom(claim, woke)
}

// RemoveNode forgets a Node.
func (m *Mirror) RemoveNode(n *corev1.Node) {
	m.mu.Lock()
	m.moved()
	delete(m.nodes, n.Name)
	delete(m.activity, n.Name)
	m.placeNode(n.Name, nil)
	m.untie(n)
	m.drop(n.Name)
	var woke []string
	if claim, ok := m.claimOf[n.Spec.ProviderID]; ok {
		woke = m.tellClaim(claim)
	}
	m.mu.Unlock()
	m.rouse(woke)
}

// SetClaim adds or replaces a NodeClaim.
func (m *Mirror) SetClaim(c *karpv1.NodeClaim) {
	m.mu.Lock()
	delete(m.unseen, c.Name)
	woke := m.setClaim(c)
	m.mu.Unlock()
	m.rouseFrom(c, woke)
}

func (m *Mirror) setClaim(c *karpv1.NodeClaim) []string {
	old := m.claims[c.Name]
	m.noteClaim(old, c)
	m.claims[c.Name] = c
	if old != nil && old.Status.ProviderID != c.Status.ProviderID {
		m.disown(old) // another claim of the same name
	}
	if c.Status.ProviderID != "" {
		m.claimOf[c.Status.ProviderID] = c.Name
		m.drop(m.nodeOf[c.Status.ProviderID]) // its node was taken for one of nobody's
	}
	return m.tellClaim(c.Name)
}

// RemoveClaim forgets a NodeClaim; pods that were promised room on it need it elsewhere.
func (m *Mirror) RemoveClaim(c *karpv1.NodeClaim) {
	m.mu.Lock()
	woke := m.removeClaim(c)
	m.mu.Unlock()
	m.rouse(woke)
}

func (m *Mirror) removeClaim(c *karpv1.NodeClaim) []string {
	m.moved()
	delete(m.claims, c.Name)
	delete(m.unseen, c.Name)
	delete(m.choices, c.Name)
	delete(m.departing, c.Name)
	woke := m.release(c.Name)
	m.drop(c.Name)
	return append(woke, m.disown(c)...)
}

// disown leaves the claim's node, if there is one, to itself.
func (m *Mirror) disown(c *karpv1.NodeClaim) []string {
	if m.claimOf[c.Status.ProviderID] != c.Name {
		return nil
	}
	delete(m.claimOf, c.Status.ProviderID)
	if name, ok := m.nodeOf[c.Status.ProviderID]; ok {
		return m.tellNode(name)
	}
	return nil
}

func (m *Mirror) tellNode(name string) []string {
	n := m.nodes[name]
	if claim, ok := m.claimOf[n.Spec.ProviderID]; ok && n.Spec.ProviderID != "" {
		m.drop(name) // it may have been nobody's while it had no provider ID
		return m.tellClaim(claim)
	}
	w := Node(n, nil, nil, nil)
	m.limits.apply(&w, nil)
	return m.tell(w)
}

func (m *Mirror) tellClaim(name string) []string {
	c := m.claims[name]
	if c == nil {
		return nil
	}
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	w := Node(m.nodes[m.nodeOf[c.Status.ProviderID]], c, cat, m.choicesOf(c))
	m.limits.apply(&w, cat.find(w.Labels[world.LabelInstanceType]))
	if !m.limits.reports(w.Name) {
		// Storage drivers label a node, in their own terms, when they start there. Until
		// then a pod whose disk lies in its zone would not be let in.
		w.Labels = cat.complete(w.Labels)
	}
	return m.tell(w)
}

// tell brings the World up to date about one node, and about the pods promised
// to it when the name they are bound under changes.
func (m *Mirror) tell(w world.Node) []string {
	old, had := m.worldNodes[w.Key]
	if w.Initialized && had && !old.Initialized && len(m.promised[w.Key]) > 0 {
		m.until[w.Key] = time.Now().Add(NominatedFor) // the scheduler can only begin now
	}
	w.NominatedUntil = m.until[w.Key]
	w.Leaving = w.Leaving || m.departing[w.Key]
	w.Stuck = stuck(w, time.Now())
	if had && reflect.DeepEqual(old, w) {
		return nil
	}
	m.builder.SetNode(w)
	m.worldNodes[w.Key] = w
	m.moved()
	if old.Name != w.Name {
		for uid := range m.promised[w.Key] {
			m.tellPod(uid)
		}
	}
	if w.Leaving && !old.Leaving {
		if Interrupted(m.claims[w.Key]) {
			m.retell(w.Name)
		}
		return append(m.release(w.Key), m.movable(w.Name)...)
	}
	return nil
}

// losesMachine reports whether a bound pod will need another home as its machine goes
// without being asked: nothing protects it from that.
func (m *Mirror) losesMachine(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" || !homeless(p) {
		return false
	}
	key := m.keyOf(p.Spec.NodeName)
	return m.worldNodes[key].Leaving && Interrupted(m.claims[key])
}

// retell tells the World of the pods on a node again.
func (m *Mirror) retell(node string) {
	for uid := range m.podsOn[node] {
		m.tellPod(uid)
	}
}

// movable lists the pods that lose their home with the node.
func (m *Mirror) movable(node string) []string {
	var uids []string
	for uid := range m.podsOn[node] {
		if m.worldPods[uid].Movable {
			uids = append(uids, uid)
		}
	}
	return uids
}

// drop takes a node out of the World.
func (m *Mirror) drop(key string) {
	if _, ok := m.worldNodes[key]; ok && key != "" {
		m.builder.RemoveNode(key)
		delete(m.worldNodes, key)
		m.moved()
	}
}

// choicesOf lists what a claim without a machine can become. It is worked out
// once per catalog: a burst of launches asks thousands of times.
func (m *Mirror) choicesOf(c *karpv1.NodeClaim) []offer.Choice {
	if len(c.Status.Allocatable) > 0 {
		delete(m.choices, c.Name)
		return nil
	}
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	known, ok := m.choices[c.Name]
	if cat == nil || ok && known.of == cat {
		return known.choices
	}
	choices, err := Choices(c, cat.Types)
	if err != nil {
		return nil // the launch reports it
	}
	m.choices[c.Name] = memo{of: cat, choices: choices}
	return choices
}

// SetPool adds or replaces a NodePool. One of another kind of node class is
// ignored; a pool cannot change its kind.
func (m *Mirror) SetPool(p *karpv1.NodePool) {
	if m.Class.Kind != "" && !OfKind(p.Spec.Template.Spec.NodeClassRef, m.Class) {
		return
	}
	m.mu.Lock()
	old := m.pools[p.Name]
	m.pools[p.Name] = p
	changed := old == nil || !reflect.DeepEqual(Pool(old), Pool(p))
	if changed || newsOfPool(old, p) {
		m.moved()
	}
	if changed {
		m.builder.SetPool(Pool(p))
	}
	m.mu.Unlock()
	if changed {
		m.wake("")
	}
}

// RemovePool forgets a NodePool.
func (m *Mirror) RemovePool(p *karpv1.NodePool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved()
	delete(m.pools, p.Name)
	m.builder.RemovePool(p.Name)
}

// SetCatalog sets what a node class can buy and what is left of the budgets.
func (m *Mirror) SetCatalog(class string, types []offer.Type, budgets map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.budgets[class], budgets) {
		m.moved()
	}
	m.budgets[class] = budgets
	if cat := m.catalogs[class]; cat.same(types) {
		m.builder.SetCatalog(class, cat.Types, budgets)
		return
	}
	m.setTypes(class, types, m.limits.lower(types))
}

// setTypes makes a class buy from types, which the provider spelt as original.
func (m *Mirror) setTypes(class string, original, types []offer.Type) {
	m.moved()
	m.builder.SetCatalog(class, types, m.budgets[class])
	cat := NewCatalog(types)
	cat.original = original
	m.catalogs[class] = cat
	for name, c := range m.claims {
		if ClassOf(c.Spec.NodeClassRef) == class {
			m.tellClaim(name)
		}
	}
}

// SetNamespace adds or replaces a Namespace: selectors of pods may ask for its labels.
func (m *Mirror) SetNamespace(n *corev1.Namespace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved()
	m.builder.SetNamespace(n.Name, n.Labels)
}

// RemoveNamespace forgets a Namespace.
func (m *Mirror) RemoveNamespace(n *corev1.Namespace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved()
	m.builder.RemoveNamespace(n.Name)
}

// SetSettings sets the operator's wishes.
func (m *Mirror) SetSettings(s world.Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved()
	m.builder.SetSettings(s)
}

// Classes lists the node classes that pools and claims buy from, sorted.
func (m *Mirror) Classes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	classes := map[string]bool{}
	for _, p := range m.pools {
		classes[ClassOf(p.Spec.Template.Spec.NodeClassRef)] = true
	}
	for _, c := range m.claims {
		classes[ClassOf(c.Spec.NodeClassRef)] = true
	}
	delete(classes, "")
	return slices.Sorted(maps.Keys(classes))
}

// Choices lists what a claim can become, cheapest first, from the last catalog
// set; the error says which requirement cannot be read.
func (m *Mirror) Choices(c *karpv1.NodeClaim) ([]offer.Choice, error) {
	m.mu.Lock()
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	known, ok := m.choices[c.Name]
	m.mu.Unlock()
	if ok && known.of == cat || cat == nil {
		return known.choices, nil
	}
	return Choices(c, cat.Types) // outside the lock: it takes milliseconds
}

// Pod returns the pod with that UID, nil when there is none.
func (m *Mirror) Pod(uid string) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// Pool returns the NodePool of that name, nil when there is none.
func (m *Mirror) Pool(name string) *karpv1.NodePool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pools[name]
}

// Describe names a node of the World as people know it: nodeclaim/x, node/y.
func (m *Mirror) Describe(key string) string {
	m.mu.Lock()
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

// Nodes counts the machines of the World, those on their way included.
func (m *Mirror) Nodes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.worldNodes)
}

// Waiting counts the pods that need room and were not promised any.
func (m *Mirror) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, p := range m.worldPods {
		if p.Node == "" {
			n++
		}
	}
	return n
}

// Machine is a NodeClaim with what became of it.
type Machine struct {
	Claim *karpv1.NodeClaim
	Node  *corev1.Node // nil until there is one
	// Nodes counts the Nodes that have its provider ID. There should be one; of several,
	// Node is the youngest.
	Nodes int
	Pods  []*corev1.Pod
	// World is the node as the engine sees it.
	World world.Node
	// Promised counts the pods that were told to expect room here and are not bound yet.
	Promised int
	// KnownType is set when the machine's type is in the catalog of its node class.
	KnownType bool
	// Activity is when a pod last came or went, as far as this process saw; zero when it saw none.
	Activity time.Time
}

// Machines lists every NodeClaim, by name. The objects are shared: look, do not touch.
func (m *Mirror) Machines() []Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Machine, 0, len(m.claims))
	for _, c := range m.claims {
		out = append(out, m.machine(c))
	}
	slices.SortFunc(out, func(a, b Machine) int { return strings.Compare(a.Claim.Name, b.Claim.Name) })
	return out
}

func (m *Mirror) machine(c *karpv1.NodeClaim) Machine {
	x := Machine{Claim: c, World: m.worldNodes[c.Name], Promised: len(m.promised[c.Name])}
	x.KnownType = m.catalogs[ClassOf(c.Spec.NodeClassRef)].find(x.World.Labels[world.LabelInstanceType]) != nil
	if c.Status.ProviderID == "" {
		return x
	}
	if x.Node = m.nodes[m.nodeOf[c.Status.ProviderID]]; x.Node == nil {
		return x
	}
	x.Nodes = len(m.nodesOf[c.Status.ProviderID])
	x.Pods = make([]*corev1.Pod, 0, len(m.podsOn[x.Node.Name]))
	for uid := range m.podsOn[x.Node.Name] {
		x.Pods = append(x.Pods, m.pods[uid])
	}
	x.Activity = m.activity[x.Node.Name]
	return x
}

// rouseFrom wakes pods that lose their home on the claim's machine. The claim may be nil.
func (m *Mirror) rouseFrom(c *karpv1.NodeClaim, pods []string) {
	if m.Hurry != nil && Interrupted(c) {
		for _, uid := range pods {
			m.Hurry(uid)
		}
	}
	m.rouse(pods)
}

func (m *Mirror) rouse(pods []string) {
	for _, uid := range pods {
		m.wake(uid)
	}
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
