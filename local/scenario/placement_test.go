// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodesInZones is a state with one node per zone and pods by node.
func nodesInZones(pods map[string]string) state {
	s := state{}
	for _, zone := range []string{"1", "2", "3"} {
		s.Nodes = append(s.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "node-" + zone, Labels: map[string]string{corev1.LabelTopologyZone: "eastus-" + zone},
		}})
	}
	for name, node := range pods {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{NodeName: node}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name},
		}}}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func TestSpreadIsChecked(t *testing.T) {
	got := spread(nodesInZones(map[string]string{"a": "node-1", "b": "node-2", "c": "node-2", "d": "node-3", "waits": ""}), "db")
	if diff := cmp.Diff(map[string]int{"eastus-1": 1, "eastus-2": 2, "eastus-3": 1}, got); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
	if err := checkSpread(got); err != nil {
		t.Error(err)
	}
	for want, counts := range map[string]map[string]int{
		"2 zones instead of 3":                {"a": 5, "b": 5},
		"more than 1: 5 in a, 5 in b, 3 in c": {"a": 5, "b": 5, "c": 3},
	} {
		if err := checkSpread(counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", counts, err, want)
		}
	}
}

func TestHomesAreChecked(t *testing.T) {
	disks := map[string]string{"data-db-0": "eastus-1", "data-db-1": "eastus-2"}
	good := locationsOf(nodesInZones(map[string]string{"db-1": "node-2", "db-0": "node-1"}), "db", disks)
	if err := checkLocations(good); err != nil {
		t.Error(err)
	}
	if good[0].Pod != "db-0" || good[0].DiskZone != "eastus-1" {
		t.Errorf("places %+v", good)
	}
	bad := locationsOf(nodesInZones(map[string]string{"db-0": "node-1", "db-1": "node-1", "db-2": "node-3"}), "db", disks)
	err := checkLocations(bad)
	for _, want := range []string{"db-0 and db-1 share node node-1", `db-1 runs in zone "eastus-1", its claim data-db-1 has a disk in "eastus-2"`, `db-2 runs in zone "eastus-3"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if checkLocations(nil) == nil {
		t.Error("an app without pods passed")
	}
}
