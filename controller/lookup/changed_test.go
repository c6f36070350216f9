// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
)

// A NodePool that was deleted and created again while the watch was interrupted passes as one update,
// although its generation and annotations are those of its predecessor; updates of its status do not.
//
// Rule MEMORY-1.
func TestObjectsMadeAnewPass(t *testing.T) {
	pool := func(uid types.UID, generation int64, note string) *karpv1.NodePool {
		return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid, Generation: generation, Annotations: map[string]string{"note": note}}}
	}
	for name, tc := range map[string]struct {
		now                      *karpv1.NodePool
		spec, annotations, other bool // whether the update passes each of the predicates
	}{
		"status":      {pool("a", 1, "x"), false, false, false},
		"spec":        {pool("a", 2, "x"), true, false, true},
		"annotations": {pool("a", 1, "y"), false, true, true},
		"made anew":   {pool("b", 1, "x"), true, true, true},
	} {
		e := event.UpdateEvent{ObjectOld: pool("a", 1, "x"), ObjectNew: tc.now}
		for which, p := range map[string]struct {
			predicate predicate.Predicate
			want      bool
		}{
			"SpecChanged":              {lookup.SpecChanged(), tc.spec},
			"AnnotationsChanged":       {lookup.AnnotationsChanged(), tc.annotations},
			"SpecOrAnnotationsChanged": {lookup.SpecOrAnnotationsChanged(), tc.other},
		} {
			if got := p.predicate.Update(e); got != p.want {
				t.Errorf("%s: %s passes it: %v", name, which, got)
			}
		}
	}
}
