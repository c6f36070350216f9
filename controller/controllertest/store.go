// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/kube"
)

// store keeps the objects of the in-memory API as they would come over the wire.
// The fake client writes them, and checks versions and finalizers; reads are
// answered here, in the order of names: the fake client encodes whatever it lists as
// JSON, which took most of the time of all tests of controllers.
type store struct {
	scheme  *runtime.Scheme
	indexes map[reflect.Type]map[string]client.IndexerFunc // by field

	mu sync.RWMutex
	// Objects are replaced, never changed; so they are copied without the lock.
	objects map[schema.GroupVersionResource]map[types.NamespacedName]client.Object
	// found are the objects that have a value in a field with an index.
	found map[place]map[types.NamespacedName]client.Object
}

// A place is the key of an index entry.
type place struct {
	of           reflect.Type
	field, value string
}

var _ clienttesting.ObjectTracker = (*store)(nil)

func newStore(scheme *runtime.Scheme) *store {
	s := &store{scheme: scheme, indexes: map[reflect.Type]map[string]client.IndexerFunc{},
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]client.Object{}, found: map[place]map[types.NamespacedName]client.Object{}}
	for _, i := range kube.Indexes() {
		of := reflect.TypeOf(i.Of)
		if s.indexes[of] == nil {
			s.indexes[of] = map[string]client.IndexerFunc{}
		}
		s.indexes[of][i.Field] = i.Extract
	}
	return s
}

// answering has the store answer reads of the kinds that the scheme knows.
func (s *store) answering(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if stored, ok := s.find(into, key); ok && reflect.TypeOf(stored) == reflect.TypeOf(into) {
				set(into, stored)
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if _, untyped := into.(runtime.Unstructured); untyped {
				return c.List(ctx, into, opts...)
			}
			return s.list(into, opts...)
		},
	})
}

// backup returns a function that puts back the objects of now, in the versions of now.
func (s *store) backup() (restore func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept := map[schema.GroupVersionResource]map[types.NamespacedName]client.Object{}
	for gvr, objects := range s.objects {
		kept[gvr] = maps.Clone(objects)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects, s.found = map[schema.GroupVersionResource]map[types.NamespacedName]client.Object{}, map[place]map[types.NamespacedName]client.Object{}
		for gvr, objects := range kept {
			s.objects[gvr] = maps.Clone(objects)
			for key, o := range objects {
				s.enter(key, o)
			}
		}
	}
}

func (s *store) find(like client.Object, key client.ObjectKey) (client.Object, bool) {
	gvr, err := s.resource(like)
	if err != nil {
		return nil, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[gvr][key]
	return o, ok
}

func (s *store) resource(o runtime.Object) (schema.GroupVersionResource, error) {
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	gvr, _ := meta.UnsafeGuessKindToResource(kind) // as the fake client does
	return gvr, nil
}

// set makes into a copy of an object of its type.
func set(into, o client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
}

// list fills in copies of the objects that the options select.
func (s *store) list(into client.ObjectList, opts ...client.ListOption) error {
	gvr, err := s.resource(into)
	if err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	chosen, err := s.chosen(gvr, o, itemOf(into))
	if err != nil {
		return err
	}
	slices.SortFunc(chosen, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	copies := make([]runtime.Object, len(chosen))
	for i, object := range chosen {
		copies[i] = object.DeepCopyObject()
	}
	return meta.SetList(into, copies)
}

// itemOf is the type of a list's objects, as a pointer; nil when it has none.
func itemOf(list client.ObjectList) reflect.Type {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	if !items.IsValid() {
		return nil
	}
	return reflect.PointerTo(items.Type().Elem())
}

// chosen are the objects that the options ask for, in no order: few of many, mostly.
func (s *store) chosen(gvr schema.GroupVersionResource, o *client.ListOptions, of reflect.Type) ([]client.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	among, err := s.among(gvr, o, of)
	if err != nil {
		return nil, err
	}
	var chosen []client.Object
	for key, object := range among {
		if o.Namespace != "" && key.Namespace != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		chosen = append(chosen, object)
	}
	return chosen, nil
}

// among returns all objects of a kind, or those that an index finds. Of is their type.
func (s *store) among(gvr schema.GroupVersionResource, o *client.ListOptions, of reflect.Type) (map[types.NamespacedName]client.Object, error) {
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return s.objects[gvr], nil
	}
	fields := o.FieldSelector.Requirements()
	if r := fields[0]; len(fields) > 1 || s.indexes[of][r.Field] == nil || r.Operator == selection.NotEquals {
		return nil, fmt.Errorf("listing %v where %v: no index answers that", of, o.FieldSelector)
	}
	return s.found[place{of, fields[0].Field, fields[0].Value}], nil
}

// enter has an object in all indexes of its type, and leave in none. Callers hold the lock.
func (s *store) enter(key types.NamespacedName, o client.Object) {
	for _, p := range s.places(o) {
		if s.found[p] == nil {
			s.found[p] = map[types.NamespacedName]client.Object{}
		}
		s.found[p][key] = o
	}
}

func (s *store) leave(key types.NamespacedName, o client.Object) {
	for _, p := range s.places(o) {
		if delete(s.found[p], key); len(s.found[p]) == 0 {
			delete(s.found, p)
		}
	}
}

// places are where the indexes find an object; nil has none.
func (s *store) places(o client.Object) []place {
	of := reflect.TypeOf(o)
	var all []place
	for field, extract := range s.indexes[of] {
		for _, value := range extract(o) {
			all = append(all, place{of, field, value})
		}
	}
	return all
}

// Get returns a copy of one object, for the fake client to change.
func (s *store) Get(gvr schema.GroupVersionResource, namespace, name string, _ ...metav1.GetOptions) (runtime.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[gvr][types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	return o.DeepCopyObject(), nil
}

// Create keeps a new object.
func (s *store) Create(gvr schema.GroupVersionResource, o runtime.Object, namespace string, _ ...metav1.CreateOptions) error {
	sent, err := wire(o)
	if err != nil {
		return err
	}
	return s.put(gvr, sent, namespace, false)
}

// Update keeps an object in the place of an older version.
func (s *store) Update(gvr schema.GroupVersionResource, o runtime.Object, namespace string, _ ...metav1.UpdateOptions) error {
	sent, err := wire(o)
	if err != nil {
		return err
	}
	return s.put(gvr, sent, namespace, true)
}

// Patch keeps an object that the fake client has patched, which it does on the wire.
func (s *store) Patch(gvr schema.GroupVersionResource, o runtime.Object, namespace string, _ ...metav1.PatchOptions) error {
	sent, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return notAnObject(o)
	}
	return s.put(gvr, sent, namespace, true)
}

func (s *store) put(gvr schema.GroupVersionResource, sent client.Object, namespace string, replace bool) error {
	if sent.GetNamespace() == "" {
		sent.SetNamespace(namespace)
	}
	if _, untyped := sent.(*unstructured.Unstructured); !untyped {
		sent.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // typed clients leave it empty
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(sent)
	former, there := s.objects[gvr][key]
	switch {
	case there && !replace:
		return apierrors.NewAlreadyExists(gvr.GroupResource(), key.Name)
	case !there && replace:
		return apierrors.NewNotFound(gvr.GroupResource(), key.Name)
	}
	if s.objects[gvr] == nil {
		s.objects[gvr] = map[types.NamespacedName]client.Object{}
	}
	s.leave(key, former)
	s.enter(key, sent)
	s.objects[gvr][key] = sent
	return nil
}

// wire returns an object as it comes over the wire: times in whole seconds, and no empty lists
// that the wire omits.
func wire(o runtime.Object) (client.Object, error) {
	if u, untyped := o.(*unstructured.Unstructured); untyped {
		return u.DeepCopy(), nil
	}
	sent, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", o, err)
	}
	arrived, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok {
		return nil, notAnObject(o)
	}
	if err := json.Unmarshal(sent, arrived); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", o, err)
	}
	return arrived, nil
}

func notAnObject(o runtime.Object) error { return fmt.Errorf("%T is no object of an API", o) }

// Delete forgets an object.
func (s *store) Delete(gvr schema.GroupVersionResource, namespace, name string, _ ...metav1.DeleteOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	o, ok := s.objects[gvr][key]
	if !ok {
		return apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	s.leave(key, o)
	delete(s.objects[gvr], key)
	return nil
}

// The methods below belong to a tracker of objects, and none of karve's controllers uses them:
// they watch changes, write no server-side patches, and delete one by one.

var errNotServed = errors.New("the in-memory API does not serve this")

// Add is not served.
func (s *store) Add(runtime.Object) error { return errNotServed }

// List is not served: see answering.
func (s *store) List(schema.GroupVersionResource, schema.GroupVersionKind, string, ...metav1.ListOptions) (runtime.Object, error) {
	return nil, errNotServed
}

// Apply is not served.
func (s *store) Apply(schema.GroupVersionResource, runtime.Object, string, ...metav1.PatchOptions) error {
	return errNotServed
}

// Watch is not served.
func (s *store) Watch(schema.GroupVersionResource, string, ...metav1.ListOptions) (watch.Interface, error) {
	return nil, errNotServed
}
