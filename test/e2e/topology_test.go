// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
	"github.com/karve-dev/karve/local/storage"
)

// statefulSet is a StatefulSet of simulated pods that never share a node and have a
// disk each; the disks go with it. more is added to the pod's spec.
func statefulSet(name string, replicas int, requests, more string) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  serviceName: %[1]s
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: %[1]s}}}
      containers: [{name: main, image: none, resources: {requests: %[3]s}, volumeMounts: [{name: data, mountPath: /data}]}]
%[4]s
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: managed-csi, accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Gi}}}
`, name, replicas, requests, indent(more, 6))
}

// evenly spreads an app over three zones. minDomains keeps the scheduler from filling
// the zone whose node is ready first.
func evenly(app string) string {
	return fmt.Sprintf(`
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    minDomains: 3
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {app: %s}}`, app)
}

// Zone spread, anti-affinity between hosts and zonal disks, planned together: all
// pods come to run, where their manifests say.
func TestSpreadApartAndWithDisks(t *testing.T) {
	env := environment(t)
	settle(t, env)
	settleDisks(t, env)
	apply(t, env, pool("topology", "default", ""))
	apply(t, env, deployment("spread", 10, `{cpu: "1"}`, "nodeSelector: {pool: topology}"+evenly("spread")))
	apply(t, env, statefulSet("disks", 3, `{cpu: "1"}`, "nodeSelector: {pool: topology}"))
	waitRunning(t, env, "spread", 10)
	waitRunning(t, env, "disks", 3)

	zones := map[string]int{}
	for _, at := range places(t, env, "spread") {
		zones[at.zone]++
	}
	for zone, n := range zones {
		if n < 3 || n > 4 || len(zones) != 3 {
			t.Errorf("%d of 10 pods in %q, %d zones: %v", n, zone, len(zones), zones)
		}
	}
	nodes := map[string]string{}
	for _, at := range places(t, env, "disks") {
		if other, taken := nodes[at.node]; taken {
			t.Errorf("%s and %s share node %s", other, at.pod, at.node)
		}
		nodes[at.node] = at.pod
		if at.diskZone == "" || at.diskZone != at.zone {
			t.Errorf("%s runs in %q, its disk lies in %q", at.pod, at.zone, at.diskZone)
		}
	}
}

// A disk cannot follow its pod to another zone, so when a spot VM is evicted
// its replacement is launched in the zone of the disk.
func TestEvictedPodComesBackToItsDisk(t *testing.T) {
	env := environment(t)
	settle(t, env)
	settleDisks(t, env)
	apply(t, env, pool("spotdisks", "default", `- {key: karpenter.sh/capacity-type, operator: In, values: [spot]}`))
	apply(t, env, statefulSet("keeper", 2, `{cpu: "1"}`, "nodeSelector: {pool: spotdisks}"))
	waitRunning(t, env, "keeper", 2)

	before := places(t, env, "keeper")[0]
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if c.Node != before.node {
			continue
		}
		if err := env.Emulator().VMs.Evict(path.Base(c.ProviderID), 0); err != nil {
			t.Fatal(err)
		}
	}
	err = local.Until(t.Context(), waitLimit, before.pod+" runs elsewhere", func(ctx context.Context) (bool, error) {
		var p corev1.Pod
		if err := env.Client().Get(ctx, client.ObjectKey{Namespace: "default", Name: before.pod}, &p); err != nil {
			return false, err
		}
		if p.UID == before.uid || p.Status.Phase != corev1.PodRunning {
			return false, fmt.Errorf("it is %s on %q", p.Status.Phase, p.Spec.NodeName)
		}
		return true, env.Err()
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, whyNot(t, env, "keeper"))
	}
	after := places(t, env, "keeper")[0]
	if after.node == before.node || after.zone != before.zone || after.diskZone != before.diskZone {
		t.Errorf("before %+v, after %+v: want another node in the zone of the same disk", before, after)
	}
	waitRunning(t, env, "keeper", 2)
}

// podPlace is where a pod and its disk are.
type podPlace struct {
	pod, node, zone, diskZone string
	uid                       types.UID
}

// places lists where an app's pods are, by name.
func places(t *testing.T, env *local.Environment, app string) []podPlace {
	t.Helper()
	all, err := pods(t.Context(), env, app) // the API server lists by name
	if err != nil {
		t.Fatal(err)
	}
	var list []podPlace
	for _, p := range all {
		var node corev1.Node
		if err := env.Client().Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
			t.Fatal(err)
		}
		list = append(list, podPlace{
			pod: p.Name, uid: p.UID, node: node.Name, zone: node.Labels[corev1.LabelTopologyZone],
			diskZone: diskZone(t, env, p),
		})
	}
	return list
}

// diskZone is the zone of a pod's disk, empty when it has none.
func diskZone(t *testing.T, env *local.Environment, p corev1.Pod) string {
	t.Helper()
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		if err := env.Client().Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, &claim); err != nil {
			t.Fatal(err)
		}
		var volume corev1.PersistentVolume
		if err := env.Client().Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &volume); err != nil {
			t.Fatal(err)
		}
		return storage.ZoneOf(&volume)
	}
	return ""
}

// settleDisks waits, after everything was deleted, until no volume and no attachment
// is left.
func settleDisks(t *testing.T, env *local.Environment) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := local.Until(ctx, waitLimit, "every volume is detached and gone", func(ctx context.Context) (bool, error) {
			var volumes corev1.PersistentVolumeList
			var attachments storagev1.VolumeAttachmentList
			if err := errors.Join(env.Client().List(ctx, &volumes), env.Client().List(ctx, &attachments)); err != nil {
				return false, err
			}
			if len(volumes.Items)+len(attachments.Items) > 0 {
				return false, fmt.Errorf("%d volumes and %d attachments are left", len(volumes.Items), len(attachments.Items))
			}
			return true, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
