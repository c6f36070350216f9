// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/internal/panics"
)

// leftOutObjects has the objects with which an event handler panicked. The Snapshot lacks such
// an object until it changes. After a second panic the object is left out for a minute even if
// it changes, and after every further one for twice as long, up to an hour: each panic costs a
// restore of the Mirror.
type leftOutObjects map[leftOutKey]*leftOut

// leftOutKey identifies an object by its feed and its name.
type leftOutKey struct {
	feed *feed
	name types.NamespacedName
}

func keyOf(f *feed, o client.Object) leftOutKey {
	return leftOutKey{f, client.ObjectKeyFromObject(o)}
}

type leftOut struct {
	uid     types.UID
	version string // the version that the handler panicked with
	until   time.Time
	wait    time.Duration
}

const (
	firstLeftOut   = time.Minute
	longestLeftOut = time.Hour
)

// has reports whether the object is left out in this version.
func (l leftOutObjects) has(f *feed, o client.Object, now time.Time) bool {
	x := l[keyOf(f, o)]
	return x != nil && x.uid == o.GetUID() && (x.version == o.GetResourceVersion() || now.Before(x.until))
}

// add records that an object is left out.
func (l leftOutObjects) add(f *feed, o client.Object, now time.Time) {
	x := l[keyOf(f, o)]
	if x == nil || x.uid != o.GetUID() {
		x = &leftOut{uid: o.GetUID()}
		l[keyOf(f, o)] = x
	}
	x.version, x.until = o.GetResourceVersion(), now.Add(x.wait)
	x.wait = min(max(2*x.wait, firstLeftOut), longestLeftOut)
}

// forget records that the object is not left out, or does not exist any more.
func (l leftOutObjects) forget(f *feed, o client.Object) { delete(l, keyOf(f, o)) }

// fedObject is an object with its feed.
type fedObject struct {
	feed *feed
	client.Object
}

// changed lists the objects that changed while they were left out, as the informers' stores have
// them.
func (l leftOutObjects) changed(now time.Time) (changed []fedObject) {
	for key, x := range l {
		if now.Before(x.until) || key.feed.store == nil {
			continue
		}
		o, there, err := key.feed.store.GetByKey(toolscache.NewObjectName(key.name.Namespace, key.name.Name).String())
		if err != nil || !there {
			continue // its delete event is on its way
		}
		if o := o.(client.Object); o.GetResourceVersion() != x.version {
			changed = append(changed, fedObject{key.feed, o})
		}
	}
	return changed
}

// handling is the name under which panics of handlers are counted.
const handling = "informer"

func (f *feed) describe(o client.Object) string {
	return fmt.Sprintf("%T %s", f.of, client.ObjectKeyFromObject(o))
}

// setWith makes the change that an object's event asks for, unless the object is left out.
func (f *feed) setWith(o client.Object, change func() wakeups) {
	m := f.mirror
	p := m.Panics.Try(handling, f.describe(o), func() {
		m.change(func() wakeups {
			if m.leftOut.has(f, o, time.Now()) {
				return wakeups{}
			}
			n := change()
			m.leftOut.forget(f, o)
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
		f.setWith(now, func() wakeups { return f.set(now, false) })
		return
	}
	m := f.mirror
	// If this panics, either object may be the cause. Restoring the Mirror, which lists the new
	// object, shows which.
	_ = m.Panics.Try(handling, f.describe(now), func() {
		m.change(func() wakeups {
			m.leftOut.forget(f, old)
			return f.replace(old, now)
		})
	})
}

// replace records an object in place of another one of the same name. An object that was
// deleted and recreated while the watch was interrupted arrives as an update but is another
// object: no record about the old one, also by its name, holds for it.
func (f *feed) replace(old, now client.Object) wakeups {
	gone := f.remove(old)
	return gone.join(f.set(now, false))
}

// end forgets an object that was deleted. If that panics, the Mirror is restored from lists
// that no longer have the object.
func (f *feed) end(o client.Object) {
	m := f.mirror
	_ = m.Panics.Try(handling, f.describe(o), func() {
		m.change(func() wakeups {
			m.leftOut.forget(f, o)
			return f.remove(o)
		})
	})
}

// leaveOut records that an object is left out, and has the Mirror restored without it.
func (m *Mirror) leaveOut(f *feed, o client.Object, because *panics.Panic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.halfChanged = true
	m.reportLeftOut(f, o, because)
}

// reportLeftOut records that an object is left out, and calls OnLeftOut. Callers hold the lock.
func (m *Mirror) reportLeftOut(f *feed, o client.Object, because *panics.Panic) {
	m.leftOut.add(f, o, time.Now())
	if m.OnLeftOut != nil {
		m.OnLeftOut(o, because)
	}
}

// retryLeftOut tries the objects again that changed while they were left out.
func (m *Mirror) retryLeftOut(now time.Time) {
	m.lock()
	changed := m.leftOut.changed(now)
	m.mu.Unlock()
	for _, o := range changed {
		o.feed.setWith(o.Object, func() wakeups { return o.feed.set(o.Object, true) })
	}
}
