package world

import (
	"github.com/karve-dev/karve/engine/offer"
)

// Builder keeps a World current from single changes, in any order: a pod may
// name a node that is not known yet, a pool a catalog that comes later. It folds
// pods into classes and interns labels as they arrive, so that World costs no
// rebuild. It is not safe for concurrent use: its owner serialises calls.
type Builder struct{}

// NewBuilder returns a Builder of the empty World.
func NewBuilder() *Builder { return &Builder{} }

// SetPod adds or replaces the pod with that UID: pending when pod.Node is empty, else bound.
func (b *Builder) SetPod(pod Pod) {}

// RemovePod forgets the pod with that UID.
func (b *Builder) RemovePod(uid string) {}

// SetNode adds or replaces the node with that key. Bound pods find it by Node.Name.
func (b *Builder) SetNode(node Node) {}

// RemoveNode forgets the node with that key.
func (b *Builder) RemoveNode(key string) {}

// SetPool adds or replaces a pool.
func (b *Builder) SetPool(pool Pool) {}

// RemovePool forgets a pool.
func (b *Builder) RemovePool(name string) {}

// SetDaemon adds or replaces a DaemonSet by UID.
func (b *Builder) SetDaemon(d Daemon) {}

// RemoveDaemon forgets the DaemonSet with that UID.
func (b *Builder) RemoveDaemon(uid string) {}

// SetCatalog sets what a node class can buy and what is left of the budgets.
func (b *Builder) SetCatalog(class string, types []offer.Type, budgets map[string]int64) {}

// World returns the current snapshot. It stays valid until the next change.
func (b *Builder) World() *World { return &World{} }

// World is the snapshot a decision reads. Compiled; see spec.go for what goes in.
type World struct{}
