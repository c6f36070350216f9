// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecOrAnnotationsChanged passes updates of an object's spec or annotations, and those by which another
// object has its name. Creations and deletions pass, too.
func SpecOrAnnotationsChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, AnnotationsChanged())
}

// AnnotationsChanged passes the same without updates of the spec alone.
func AnnotationsChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.AnnotationChangedPredicate{}, predicate.Funcs{UpdateFunc: MadeAnew})
}

// SpecChanged passes the same without updates of annotations alone.
func SpecChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: MadeAnew})
}

// MadeAnew reports whether another object has the name now. An object that is deleted and created again
// while a watch is interrupted arrives as one update, of the same generation as often as not.
func MadeAnew(e event.UpdateEvent) bool {
	return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}
