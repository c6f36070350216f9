package controllertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
// The double writes them, and makes sure of versions and finalizers; reads are
// answered here, in the order of names: the double sends whatever it lists through
// JSON, which took most of the time of all tests of controllers.
type store struct {
	scheme  *runtime.Scheme
	indexes map[reflect.Type]map[string]client.IndexerFunc // by field

	mu sync.RWMutex
	// Objects are replaced, never changed; so they are copied without the lock.
	objects map[schema.GroupVersionResource]map[types.NamespacedName]client.Object
}

var _ clienttesting.ObjectTracker = (*store)(nil)

func newStore(scheme *runtime.Scheme) *store {
	s := &store{scheme: scheme, indexes: map[reflect.Type]map[string]client.IndexerFunc{},
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]client.Object{}}
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
	gvr, _ := meta.UnsafeGuessKindToResource(kind) // as the double does
	return gvr, nil
}

// set makes into a copy of an object of its type.
func set(into, o client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
}

// list fills in copies of what the options ask for.
func (s *store) list(into client.ObjectList, opts ...client.ListOption) error {
	gvr, err := s.resource(into)
	if err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	chosen, err := s.chosen(gvr, o)
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

// chosen are the objects that the options ask for, in no order: few of many, mostly.
func (s *store) chosen(gvr schema.GroupVersionResource, o *client.ListOptions) ([]client.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var chosen []client.Object
	for key, object := range s.objects[gvr] {
		if o.Namespace != "" && key.Namespace != o.Namespace {
			continue
		}
		ok, err := s.selects(o, object)
		if err != nil {
			return nil, err
		}
		if ok {
			chosen = append(chosen, object)
		}
	}
	return chosen, nil
}

func (s *store) selects(o *client.ListOptions, object client.Object) (bool, error) {
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false, nil
	}
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		extract := s.indexes[reflect.TypeOf(object)][r.Field]
		if extract == nil || r.Operator == selection.NotEquals {
			return false, fmt.Errorf("listing %T where %s%s%s: no index answers that", object, r.Field, r.Operator, r.Value)
		}
		if !slices.Contains(extract(object), r.Value) {
			return false, nil
		}
	}
	return true, nil
}

// Get returns a copy of one object, for the double to change.
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

// Patch keeps an object that the double has patched, which it does on the wire.
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
	_, there := s.objects[gvr][key]
	switch {
	case there && !replace:
		return apierrors.NewAlreadyExists(gvr.GroupResource(), key.Name)
	case !there && replace:
		return apierrors.NewNotFound(gvr.GroupResource(), key.Name)
	}
	if s.objects[gvr] == nil {
		s.objects[gvr] = map[types.NamespacedName]client.Object{}
	}
	s.objects[gvr][key] = sent
	return nil
}

// wire is what arrives of an object: times in whole seconds, and no empty lists that
// the wire leaves out.
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
	if _, ok := s.objects[gvr][key]; !ok {
		return apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	delete(s.objects[gvr], key)
	return nil
}

// What follows belongs to a tracker of objects, and no controller of ours asks for it:
// they are called on changes, write no server-side patches, and delete one by one.

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
