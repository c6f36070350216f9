// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// TestReplicasApartWithVolumes (Rule SPREAD-5): replicas of a Deployment that keep apart get a
// node each, whether they mount one ReadWriteMany claim or each a claim of its own.
func TestReplicasApartWithVolumes(t *testing.T) {
	alike := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	ways := map[string]func(*corev1.Pod){
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = apart(corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: alike})
		},
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(corev1.LabelHostname, 1, alike)}
		},
		"host port": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		},
	}
	claims := map[string]func(i int) string{
		"one claim":          func(int) string { return "all" },
		"a claim for itself": func(i int) string { return fmt.Sprint("own-", i) },
	}
	for way, keep := range ways {
		for mounts, claim := range claims {
			t.Run(way+", "+mounts, func(t *testing.T) {
				plan := solveMounting(3, claim, keep)
				if len(plan.Launches) != 3 || len(plan.Unplaced) > 0 {
					t.Errorf("%d instances for 3 replicas, left out: %+v", len(plan.Launches), plan.Unplaced)
				}
			})
		}
	}
}

// solveMounting plans for pods of a Deployment, each with a claim to be bound where it runs.
func solveMounting(pods int, claim func(i int) string, edit func(*corev1.Pod)) (plan schedule.Plan) {
	n, m := newNasty(), NewMirror(nil)
	m.SetPool(n.pools[0])
	m.SetCatalog(kube.ClassOf(n.pools[0].Spec.Template.Spec.NodeClassRef), n.types, nil)
	m.SetStorageClass(storageClass("files", "file.csi.azure.com", storagev1.VolumeBindingWaitForFirstConsumer))
	for i := range pods {
		c := unboundClaim(claim(i), "files")
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		m.SetPVC(c)
		p := mounting(fmt.Sprint("w-", i), c.Name)
		p.Labels, p.OwnerReferences = map[string]string{"app": "w"}, owned("ReplicaSet", "apps/v1").OwnerReferences
		edit(p)
		m.SetPod(p, true)
	}
	m.View(func(snapshot *cluster.Snapshot) { plan = schedule.Solve(snapshot) })
	return plan
}
