package kube

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/internal/panics"
)

// leftOut is an object with which an event handler panicked. The Snapshot does without it until
// the object changes. After a second panic the object is left out for a minute even if it
// changes, and after every further one for twice as long, up to an hour: each panic costs a
// restore of the Mirror.
type leftOut struct {
	feed    *feed
	uid     types.UID
	version string // the version that the handler panicked with
	until   time.Time
	wait    time.Duration
}

const (
	firstLeftOut   = time.Minute
	longestLeftOut = time.Hour
)

// leftOutKey identifies an object by its feed and its name.
type leftOutKey struct {
	feed *feed
	name types.NamespacedName
}

func (f *feed) key(o client.Object) leftOutKey { return leftOutKey{f, keyOf(o)} }

// take makes the change that an object's event asks for, unless the object is left out.
func (f *feed) take(o client.Object, change func() news) {
	m := f.mirror
	p := m.Panics.Try(handling, f.about(o), func() {
		m.change(func() news {
			if m.leaves(f, o, time.Now()) {
				return news{}
			}
			n := change()
			delete(m.leftOut, f.key(o))
			return n
		})
	})
	if p != nil {
		m.leaveOut(f, o, p)
	}
}

// update records a new version of an object, or another object of the same name.
func (f *feed) update(old, now client.Object) {
	if old.GetUID() == now.GetUID() {
		f.take(now, func() news { return f.set(now, false) })
		return
	}
	m := f.mirror
	// If this panics, either object may be the cause. Restoring the Mirror, which lists the new
	// object, shows which.
	_ = m.Panics.Try(handling, f.about(now), func() {
		m.change(func() news {
			delete(m.leftOut, f.key(old))
			return f.replace(old, now)
		})
	})
}

// end forgets an object that is gone. If that panics, the Mirror is restored from lists that no
// longer have the object.
func (f *feed) end(o client.Object) {
	m := f.mirror
	_ = m.Panics.Try(handling, f.about(o), func() {
		m.change(func() news {
			delete(m.leftOut, f.key(o))
			return f.remove(o)
		})
	})
}

// handling is the name under which panics of handlers are counted.
const handling = "informer"

func (f *feed) about(o client.Object) string { return fmt.Sprintf("%T %s", f.of, keyOf(o)) }

// leaves reports whether the object is left out in this version. Callers hold the lock.
func (m *Mirror) leaves(f *feed, o client.Object, now time.Time) bool {
	x := m.leftOut[f.key(o)]
	return x != nil && x.uid == o.GetUID() && (x.version == o.GetResourceVersion() || now.Before(x.until))
}

// leaveOut records that an object is left out, and has the Mirror restored without it.
func (m *Mirror) leaveOut(f *feed, o client.Object, because *panics.Panic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spoilt = true
	m.noteLeftOut(f, o, because)
}

// noteLeftOut records that an object is left out, and calls LeftOut. Callers hold the lock.
func (m *Mirror) noteLeftOut(f *feed, o client.Object, because *panics.Panic) {
	x := m.leftOut[f.key(o)]
	if x == nil || x.uid != o.GetUID() {
		x = &leftOut{feed: f, uid: o.GetUID()}
		m.leftOut[f.key(o)] = x
	}
	x.version, x.until = o.GetResourceVersion(), time.Now().Add(x.wait)
	x.wait = min(max(2*x.wait, firstLeftOut), longestLeftOut)
	if m.LeftOut != nil {
		m.LeftOut(o, because)
	}
}

// retryLeftOut tries the objects again that changed while they were left out.
func (m *Mirror) retryLeftOut(now time.Time) {
	for _, o := range m.changedLeftOut(now) {
		o.feed.take(o.Object, func() news { return o.feed.set(o.Object, true) })
	}
}

// fedObject is an object with the feed that it comes from.
type fedObject struct {
	feed *feed
	client.Object
}

func (m *Mirror) changedLeftOut(now time.Time) (changed []fedObject) {
	m.lock()
	defer m.mu.Unlock()
	for key, x := range m.leftOut {
		if now.Before(x.until) || x.feed.store == nil {
			continue
		}
		o, there, err := x.feed.store.GetByKey(toolscache.NewObjectName(key.name.Namespace, key.name.Name).String())
		if err != nil || !there {
			continue // its delete event is on its way
		}
		if o := o.(client.Object); o.GetResourceVersion() != x.version {
			changed = append(changed, fedObject{x.feed, o})
		}
	}
	return changed
}
