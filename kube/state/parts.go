// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// parts is the state of a Mirror. Stores hold the objects that were shown; writers derive the
// snapshot from them; the others keep both consistent. It can be rebuilt; see restore.
type parts struct {
	builder *builder

	pods            *podStore
	nodes           *nodeStore
	pools           map[string]*karpv1.NodePool
	catalogs        *catalogs
	daemonSets      *daemonSets
	volumes         *volumes
	owners          *owners
	nominations     *nominations
	podReplacements *podReplacements
	protections     *protections
	activity        activity
	interruptions   *interruptions

	podWriter  *podWriter
	nodeWriter *nodeWriter
	podEvents  *podEvents
	nodeEvents *nodeEvents
	evictions  *evictions
	nominator  *nominator
	moves      *moves
}

func newParts(r *revision, pdbs *PDBs, lifetimes *Lifetimes) parts {
	p := parts{
		builder: newBuilder(r), pods: newPodStore(), nodes: newNodeStore(), pools: map[string]*karpv1.NodePool{},
		catalogs: newCatalogs(), volumes: newVolumes(), nominations: newNominations(r), podReplacements: newPodReplacements(),
		activity: activity{},
	}
	p.daemonSets, p.owners = newDaemonSets(p.builder), newOwners(p.builder)
	p.protections = newProtections(r, p.pods, pdbs)
	p.interruptions = &interruptions{pods: p.pods, nodes: p.nodes, nominations: p.nominations, podReplacements: p.podReplacements, owners: map[types.UID]time.Time{}}
	p.podWriter = &podWriter{pods: p.pods, nodes: p.nodes, nominations: p.nominations, podReplacements: p.podReplacements,
		protections: p.protections, volumes: p.volumes, owners: p.owners, builder: p.builder}
	p.nodeWriter = &nodeWriter{nodes: p.nodes, catalogs: p.catalogs, nominations: p.nominations, builder: p.builder, podWriter: p.podWriter}
	p.nodeEvents = &nodeEvents{revision: r, nodes: p.nodes, catalogs: p.catalogs, nominations: p.nominations,
		activity: p.activity, builder: p.builder, podWriter: p.podWriter, nodeWriter: p.nodeWriter}
	p.evictions = &evictions{pods: p.pods, nominations: p.nominations, podReplacements: p.podReplacements, podWriter: p.podWriter}
	p.nominator = &nominator{pods: p.pods, nodes: p.nodes, nominations: p.nominations, podReplacements: p.podReplacements,
		evictions: p.evictions, builder: p.builder, podWriter: p.podWriter}
	p.podEvents = &podEvents{revision: r, pods: p.pods, nodes: p.nodes, activity: p.activity, protections: p.protections,
		volumes: p.volumes, nominations: p.nominations, podReplacements: p.podReplacements, daemonSets: p.daemonSets,
		interruptions: p.interruptions, evictions: p.evictions, nominator: p.nominator, podWriter: p.podWriter, lifetimes: lifetimes}
	p.moves = &moves{nodes: p.nodes, pods: p.pods, nominations: p.nominations, builder: p.builder, podWriter: p.podWriter,
		nodeWriter: p.nodeWriter, nodeEvents: p.nodeEvents, nominator: p.nominator}
	return p
}

// wakeups are the calls of the Mirror's callbacks that a change causes. The zero value is none.
type wakeups struct {
	pods   []string // UIDs of pods that now need capacity; "" for other changes
	urgent []string // those of them whose node is interrupted
	// nominated are the nodes of pods that took over a nomination, by UID.
	nominated map[string]string
}

// wakeIf returns, if changed is set, the wake-up for a change on which a new plan may depend and
// which is not of a single pod.
func wakeIf(changed bool) wakeups {
	if !changed {
		return wakeups{}
	}
	return wakeups{pods: []string{""}}
}

// wakeFor returns the wake-ups for pods that lose the node of the claim. The claim may be nil.
func wakeFor(c *karpv1.NodeClaim, pods []string) wakeups {
	if kube.Interrupted(c) {
		return wakeups{pods: pods, urgent: pods}
	}
	return wakeups{pods: pods}
}

func (w wakeups) join(more wakeups) wakeups {
	all := wakeups{pods: append(w.pods, more.pods...), urgent: append(w.urgent, more.urgent...), nominated: w.nominated}
	if all.nominated == nil {
		all.nominated = more.nominated
	} else {
		maps.Copy(all.nominated, more.nominated)
	}
	return all
}

// A setter adds or replaces an object, and a remover forgets it.

func (p *parts) setPod(pod *corev1.Pod, listed bool) wakeups { return p.podEvents.set(pod, listed) }

func (p *parts) removePod(pod *corev1.Pod) wakeups { return p.podEvents.remove(pod) }

func (p *parts) setNode(n *corev1.Node) wakeups {
	waiting := p.nodeEvents.setNode(n)
	claim, _ := p.nodes.claimNameWithID(n.Spec.ProviderID)
	return wakeFor(p.nodes.claim(claim), waiting)
}

func (p *parts) removeNode(n *corev1.Node) wakeups {
	return wakeups{pods: p.nodeEvents.removeNode(n)}
}

func (p *parts) setClaim(c *karpv1.NodeClaim) wakeups {
	return wakeFor(c, p.nodeEvents.setWatchedClaim(c))
}

func (p *parts) removeClaim(c *karpv1.NodeClaim) wakeups {
	return wakeups{pods: p.nodeEvents.removeClaim(c)}
}

func (p *parts) setPool(pool *karpv1.NodePool) wakeups {
	old := p.pools[pool.Name]
	p.pools[pool.Name] = pool
	p.builder.revision.incrementIf(poolChanged(old, pool))
	return wakeIf(p.builder.setPool(kube.Pool(pool)))
}

func (p *parts) removePool(pool *karpv1.NodePool) wakeups {
	delete(p.pools, pool.Name)
	p.builder.removePool(pool.Name)
	return wakeups{}
}

func (p *parts) setNamespace(n *corev1.Namespace) wakeups {
	p.builder.setNamespace(n.Name, n.Labels)
	return wakeups{}
}

func (p *parts) removeNamespace(n *corev1.Namespace) wakeups {
	p.builder.removeNamespace(n.Name)
	return wakeups{}
}

func (p *parts) setDaemon(d *appsv1.DaemonSet) wakeups { p.daemonSets.set(d); return wakeups{} }

func (p *parts) removeDaemon(d *appsv1.DaemonSet) wakeups {
	p.daemonSets.remove(d)
	return wakeups{}
}

func (p *parts) setReplicaSet(s *appsv1.ReplicaSet) wakeups {
	p.owners.want(s.UID, kube.PodsOfReplicaSet(s))
	return wakeups{}
}

func (p *parts) setStatefulSet(s *appsv1.StatefulSet) wakeups {
	p.owners.want(s.UID, kube.PodsOfStatefulSet(s))
	return wakeups{}
}

func (p *parts) setJob(j *batchv1.Job) wakeups {
	p.owners.want(j.UID, kube.PodsOfJob(j))
	return wakeups{}
}

func (p *parts) removeOwner(uid types.UID) wakeups {
	p.owners.want(uid, 0)
	return wakeups{}
}

func (p *parts) setPVC(c *corev1.PersistentVolumeClaim) wakeups {
	return p.writePods(p.volumes.setPVC(c))
}

func (p *parts) removePVC(c *corev1.PersistentVolumeClaim) wakeups {
	return p.writePods(p.volumes.removePVC(c))
}

func (p *parts) setVolume(v *corev1.PersistentVolume) wakeups {
	return p.writePods(p.volumes.setVolume(v))
}

func (p *parts) removeVolume(v *corev1.PersistentVolume) wakeups {
	return p.writePods(p.volumes.removeVolume(v))
}

func (p *parts) setStorageClass(c *storagev1.StorageClass) wakeups {
	return p.writePods(p.volumes.setClass(c))
}

func (p *parts) removeStorageClass(c *storagev1.StorageClass) wakeups {
	return p.writePods(p.volumes.removeClass(c))
}

func (p *parts) setCSINode(n *storagev1.CSINode) wakeups {
	return wakeups{pods: p.nodeEvents.setCSINode(n.Name, n)}
}

func (p *parts) removeCSINode(n *storagev1.CSINode) wakeups {
	return wakeups{pods: p.nodeEvents.setCSINode(n.Name, nil)}
}

func (p *parts) setPDB(b *policyv1.PodDisruptionBudget) wakeups {
	return wakeIf(p.protections.setPDB(b) && p.builder.anyMarkedForDeletion())
}

func (p *parts) removePDB(b *policyv1.PodDisruptionBudget) wakeups {
	return wakeIf(p.protections.removePDB(b) && p.builder.anyMarkedForDeletion())
}

// writePods writes pods to the snapshot again.
func (p *parts) writePods(uids []string) wakeups {
	return wakeups{pods: p.podWriter.writeAll(uids)}
}

// writeLapsed writes the pods whose do-not-disrupt duration has ended.
func (p *parts) writeLapsed(now time.Time) (waiting []string) {
	return p.podWriter.writeAll(p.protections.takeLapsed(now))
}

// queue queues, for writeQueued, what has changed and concerns many pods or claims.
func (p *parts) queue() {
	p.nodeEvents.applyLimits()
	p.protections.queueChecks()
}

// writeQueued writes the next claims whose catalog changed, or else the next pods whose
// PodDisruptionBudgets did, and reports whether there are more.
func (p *parts) writeQueued() (waiting []string, more bool) {
	if waiting, more = p.nodeEvents.writeOutdated(); more {
		return waiting, true
	}
	uids, more := p.protections.takeChecked()
	return append(waiting, p.podWriter.writeAll(uids)...), more
}

// tidy frees memory that is not needed any more, but for the snapshot's; see builder.update.
func (p *parts) tidy() {
	p.interruptions.forgetOld(time.Now())
	p.podWriter.tidy()
}
