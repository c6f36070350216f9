// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectReader answers reads from a list of objects of any kinds, with copies. Everything else of a
// client panics, as deciding has no business with it.
type objectReader struct {
	client.Client
	objects []client.Object
}

// Get finds one object by name.
func (r *objectReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, o := range r.objects {
		if reflect.TypeOf(o) == reflect.TypeOf(into) && client.ObjectKeyFromObject(o) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List finds objects by namespace, by labels, and pods by node.
func (r *objectReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	items, err := meta.GetItemsPtr(into)
	if err != nil {
		return err
	}
	kind := reflect.PointerTo(reflect.TypeOf(items).Elem().Elem())
	var found []runtime.Object
	for _, object := range r.objects {
		if reflect.TypeOf(object) == kind && selected(object, o) {
			found = append(found, object.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

func selected(object client.Object, o *client.ListOptions) bool {
	if o.Namespace != "" && o.Namespace != object.GetNamespace() {
		return false
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	node, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	pod, isPod := object.(*corev1.Pod)
	return ok && isPod && pod.Spec.NodeName == node
}
