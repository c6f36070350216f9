// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
)

// A ReplicaSet owes the pods that the snapshot lacks: fewer with each that arrives, and none once it is
// deleted.
//
// Rule PLAN-17.
func TestReplicaSetOwesPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		rs := replicaSet(0, 10)
		rs.UID = types.UID("rs")
		c := watchCluster(t, m, rs)
		for i := range 3 {
			p := ofReplicaSet(pendingPod(fmt.Sprint("web-", i)))
			p.Labels = map[string]string{"app": "web"}
			c.put(p)
		}
		c.settle()
		checkOwed(t, m, 7)
		rs.Spec.Replicas = new(int32(4))
		c.put(rs)
		c.settle()
		checkOwed(t, m, 1)
		c.remove(ofReplicaSet(pendingPod("web-0")))
		c.settle()
		checkOwed(t, m, 2)
		c.put(askedToLeave(boundTo(ofReplicaSet(pendingPod("web-1")), "elsewhere")))
		c.settle()
		checkOwed(t, m, 3)
		rs.DeletionTimestamp = new(metav1.Now())
		c.put(rs)
		c.settle()
		checkOwed(t, m, 0)
	})
}

func checkOwed(t *testing.T, m *Mirror, want int) {
	t.Helper()
	m.View(func(s *cluster.Snapshot) {
		if len(s.Classes) != 1 || s.Classes[0].Owed != want {
			t.Errorf("classes %v, want one of which %d pods are owed", s.Classes, want)
		}
	})
}
