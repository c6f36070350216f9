package kube

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// A World gives labels and values numbers that it never gives again, and a Mirror shares what
// it converted between pods that say the same. Both are of no use once the objects are gone.

// spareNumbers is how many numbers are no reason to begin anew, however few are in use.
const spareNumbers = 1024

// footing is how much the World knew when its builder was made, and the most it was made of
// since.
type footing struct {
	interned, load int
}

// Tidy lets go of what nothing needs any more. Settle does so, too: Tidy is for a process that
// follows the cluster and decides nothing.
func (m *Mirror) Tidy() {
	m.change(func() news {
		woke := m.judge()
		m.tidy()
		return news{woke: woke}
	})
}

// tidy begins anew with the World once most of what it knows may be of no use, or most of what
// it was made of is gone. Between two beginnings at least as much comes or goes as the World is
// made of, so that what a beginning costs stays a small part of what the changes cost. The new
// World is the old one, but for what is gone.
func (m *Mirror) tidy() {
	m.interruptedOwners.comfort(time.Now())
	if m.convert.shared() > 4*len(m.worldPods)+spareNumbers {
		m.convert = Converter{}
	}
	interned, load := m.builder.Interned(), m.builder.Load()
	m.footing.load = max(m.footing.load, load)
	switch {
	case m.footing.interned == 0: // all that was listed at the start is in use
		m.footing.interned = interned
	case interned > 2*m.footing.interned+spareNumbers, m.footing.load > 4*(load+spareNumbers):
		m.renew()
		m.footing = footing{interned: max(1, m.builder.Interned()), load: load}
	}
}

// mentioned lists the labels that selectors ask for or did and that some pod has.
func (m *Mirror) mentioned() []string {
	return slices.DeleteFunc(m.builder.Mentioned(), func(label string) bool { return !m.anyPodHas(label) })
}

func (m *Mirror) anyPodHas(label string) bool {
	for _, w := range m.worldPods {
		if _, ok := w.Labels[label]; ok {
			return true
		}
	}
	return false
}

// renew tells a new builder what there is.
func (m *Mirror) renew() {
	b := cluster.NewBuilder()
	b.Mention(m.mentioned()...)
	b.SetSettings(m.settings)
	for name, labels := range m.namespaces {
		b.SetNamespace(name, labels)
	}
	for class, cat := range m.catalogs {
		b.SetCatalog(class, cat.Types, m.budgets[class])
	}
	for _, p := range m.pools {
		b.SetPool(Pool(p))
	}
	for _, d := range m.daemonSets {
		if d.told != nil {
			b.SetDaemon(*d.told)
		}
	}
	for _, w := range m.worldNodes {
		b.SetNode(w)
	}
	for _, pods := range []map[string]cluster.Pod{m.worldPods, m.virtualPods} {
		for _, w := range pods {
			b.SetPod(w)
		}
	}
	m.builder = b
}
