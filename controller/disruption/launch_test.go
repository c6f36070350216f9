// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube/state"
)

// A move whose replacements were planned in a NodePool that is being deleted launches none: the
// NodeClaims would be deleted with it.
//
// Rule LAUNCH-12.
func TestNoReplacementInAPoolThatIsDeleted(t *testing.T) {
	now := metav1.Now()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web", DeletionTimestamp: &now}}
	l := &launcher{mirror: state.NewMirror(nil)}
	l.mirror.SetPool(pool)
	if made, err := l.newClaims([]schedule.Launch{{Pool: "web"}}, "move"); err == nil || len(made) > 0 {
		t.Errorf("%d NodeClaims, error %v; want an error only", len(made), err)
	}
}
