// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// key is namespace and name.
type key = types.NamespacedName

// entry is one version of an object. It never changes.
type entry struct {
	object  map[string]any
	text    []byte // the object in JSON
	version int64
}

func (e *entry) meta() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: e.object}
}

// change is one change of an object.
type change struct {
	at      time.Time
	version int64
	was, is *entry // was is nil for a creation, is for a deletion
	last    *entry // of a deletion: the object with the version of the deletion
}

// collection is the objects of a resource, in all versions of its API: they are stored in one.
type collection struct {
	kind    *kind
	objects map[key]*entry
	// changes are those since version oldest, oldest first.
	changes []change
	oldest  int64
	// bell is closed by the next change.
	bell chan struct{}
}

// store keeps objects and their changes. Callers hold the server's lock.
type store struct {
	version     int64
	collections map[runtimeschema.GroupResource]*collection
}

// keepChanges is how long changes are kept, as by etcd's compaction.
const keepChanges = 5 * time.Minute

// put stores a new version of an object, or its creation.
func (s *store) put(c *collection, object map[string]any, now time.Time) (*entry, error) {
	e, err := s.seal(object)
	if err != nil {
		return nil, err
	}
	k := keyOf(e.meta())
	c.record(change{at: now, version: e.version, was: c.objects[k], is: e})
	c.objects[k] = e
	return e, nil
}

// remove deletes an object; last is what it was in the end.
func (s *store) remove(c *collection, last map[string]any, now time.Time) (*entry, error) {
	e, err := s.seal(last)
	if err != nil {
		return nil, err
	}
	k := keyOf(e.meta())
	c.record(change{at: now, version: e.version, was: c.objects[k], last: e})
	delete(c.objects, k)
	return e, nil
}

// seal gives an object the next version.
func (s *store) seal(object map[string]any) (*entry, error) {
	s.version++
	(&unstructured.Unstructured{Object: object}).SetResourceVersion(strconv.FormatInt(s.version, 10))
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return &entry{object: object, text: text, version: s.version}, nil
}

func (c *collection) record(x change) {
	c.changes = append(c.changes, x)
	if old := x.at.Add(-keepChanges); c.changes[0].at.Before(old.Add(-time.Minute)) {
		i := slices.IndexFunc(c.changes, func(x change) bool { return x.at.After(old) })
		c.oldest = c.changes[i-1].version
		c.changes = slices.Clone(c.changes[i:])
	}
	c.wake()
}

// wake has watches look again.
func (c *collection) wake() {
	close(c.bell)
	c.bell = make(chan struct{})
}

// compact forgets all changes: who watched from an older version must list anew.
func (c *collection) compact(version int64) {
	c.changes, c.oldest = nil, version
	c.wake()
}

// since are the changes after a version; false when they are not known any more.
func (c *collection) since(version int64) ([]change, bool) {
	if version < c.oldest {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(c.changes, version+1, func(x change, v int64) int { return int(x.version - v) })
	return c.changes[i:], true
}

// sorted are the keys of objects that come after another one, in order.
func sorted(objects map[key]*entry, after string) []key {
	keys := make([]key, 0, len(objects))
	for k := range objects {
		if k.String() > after {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

func keyOf(o *unstructured.Unstructured) key {
	return key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// event is a change as one watch reports it: objects that begin to be selected are added, and those
// that are no longer selected are deleted. Nil when it concerns none that was or is selected.
func (x change) event(selected func(*entry) bool) (watch.EventType, *entry) {
	was, is := x.was != nil && selected(x.was), x.is != nil && selected(x.is)
	switch {
	case is && was:
		return watch.Modified, x.is
	case is:
		return watch.Added, x.is
	case was && x.is == nil:
		return watch.Deleted, x.last
	case was:
		return watch.Deleted, x.is
	}
	return "", nil
}
