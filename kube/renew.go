package kube

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// A cluster.Builder interns labels and values and never frees the numbers, and a Mirror shares
// converted values between pods that say the same. Neither is of use once the objects are gone.

// spareNumbers is how many unused numbers never cause a renewal, however few are in use.
const spareNumbers = 1024

// footing is how many strings were interned when the builder was made, and its highest load
// since.
type footing struct {
	interned, load int
}

// Tidy frees memory that is not needed any more. Settle does so too: Tidy is for a process that
// follows the cluster and makes no decisions.
func (m *Mirror) Tidy() {
	m.change(func() news {
		woke := m.judge()
		m.tidy()
		return news{woke: woke}
	})
}

// tidy makes a new builder once most of the interned strings may be unused, or most of the
// objects are gone. Between two renewals at least as many objects come or go as the Snapshot has,
// so the cost of renewals stays a small part of the cost of the changes. The new Snapshot equals
// the old one.
func (m *Mirror) tidy() {
	m.interruptedOwners.comfort(time.Now())
	if m.convert.shared() > 4*len(m.worldPods)+spareNumbers {
		m.convert = Converter{}
	}
	interned, load := m.builder.Interned(), m.builder.Load()
	m.footing.load = max(m.footing.load, load)
	switch {
	case m.footing.interned == 0: // everything listed at the start is in use
		m.footing.interned = interned
	case interned > 2*m.footing.interned+spareNumbers, m.footing.load > 4*(load+spareNumbers):
		m.renew()
		m.footing = footing{interned: max(1, m.builder.Interned()), load: load}
	}
}

// mentioned lists the labels that selectors ask for, or once asked for, and that some pod has.
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

// renew makes a new builder and writes the current objects to it.
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
