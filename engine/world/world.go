package world

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// World is the snapshot a decision reads, compiled: see spec.go for what goes in.
// It belongs to its Builder and is valid until the Builder changes; decisions
// memoise in it, so only one may run at a time.
type World struct {
	Space     *constraint.Space
	Resources *quantity.Space
	// Markets are the pools with what they can buy: weight descending, then name.
	Markets []*Market
	// Hosts are the nodes that take pods: initialized ones first, then by key.
	Hosts []*Host
	// Classes are the pending pods: priority descending, then the larger share of
	// a machine, then signature.
	Classes []*Class
	// Budgets is what is left of each quota after nodes the cloud does not count
	// yet. A budget that is not listed is not limited.
	Budgets  map[string]int64
	Settings Settings
}

// Pending counts the pods to be placed.
func (w *World) Pending() int {
	n := 0
	for _, c := range w.Classes {
		n += len(c.Pods)
	}
	return n
}

// Host is a node that takes pods.
type Host struct {
	Node
	// Free is what is left after bound pods and DaemonSet pods yet to come.
	Free quantity.Vector

	labels map[*constraint.Key]int
}

// Accepts reports whether the node's labels and taints let the class in; room is
// another question.
func (h *Host) Accepts(c *Class) bool {
	if _, ok := Tolerates(c.Tolerations, h.Taints); !ok {
		return false
	}
	return h.meets(c.Alternatives)
}

func (h *Host) meets(alternatives []constraint.Set) bool {
	for _, alt := range alternatives {
		if h.meetsAll(alt) {
			return true
		}
	}
	return false
}

func (h *Host) meetsAll(set constraint.Set) bool {
	for _, q := range set {
		id, ok := h.labels[q.Key]
		if ok && !q.Admits(id) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}
