// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	snapshot *snapshot

	pods          *podStore
	nodes         *nodeStore
	pools         map[string]*karpv1.NodePool
	catalogs      *catalogs
	daemonSets    *daemonSets
	volumes       *volumes
	promises      *promises
	replacements  *replacements
	protections   *protections
	activity      activity
	interruptions *interruptions

	podWriter    *podWriter
	nodeWriter   *nodeWriter
	podEvents    *podEvents
	nodeEvents   *nodeEvents
	reservations *reservations
	moves        *moves
}

func newParts(r *revision, pdbs *PDBs) parts {
	p := parts{
		snapshot: newSnapshot(r), pods: newPodStore(), nodes: newNodeStore(), pools: map[string]*karpv1.NodePool{},
		catalogs: newCatalogs(), volumes: newVolumes(), promises: newPromises(r), replacements: newReplacements(),
		activity: activity{},
	}
	p.daemonSets = newDaemonSets(p.snapshot)
	p.protections = newProtections(r, p.pods, pdbs)
	p.interruptions = &interruptions{pods: p.pods, nodes: p.nodes, promises: p.promises, replacements: p.replacements, owners: map[types.UID]time.Time{}}
	p.podWriter = &podWriter{pods: p.pods, nodes: p.nodes, promises: p.promises, replacements: p.replacements,
		protections: p.protections, volumes: p.volumes, snapshot: p.snapshot}
	p.nodeWriter = &nodeWriter{nodes: p.nodes, catalogs: p.catalogs, promises: p.promises, snapshot: p.snapshot, pods: p.podWriter}
	p.nodeEvents = &nodeEvents{revision: r, nodes: p.nodes, catalogs: p.catalogs, promises: p.promises,
		activity: p.activity, snapshot: p.snapshot, pods: p.podWriter, writer: p.nodeWriter}
	p.reservations = &reservations{pods: p.pods, nodes: p.nodes, promises: p.promises, replacements: p.replacements,
		snapshot: p.snapshot, podWriter: p.podWriter, nodeWriter: p.nodeWriter}
	p.podEvents = &podEvents{revision: r, pods: p.pods, nodes: p.nodes, activity: p.activity, protections: p.protections,
		volumes: p.volumes, promises: p.promises, replacements: p.replacements, daemonSets: p.daemonSets,
		interruptions: p.interruptions, reservations: p.reservations, podWriter: p.podWriter}
	p.moves = &moves{nodes: p.nodes, pods: p.pods, promises: p.promises, snapshot: p.snapshot, podWriter: p.podWriter,
		nodeWriter: p.nodeWriter, nodeEvents: p.nodeEvents, reservations: p.reservations}
	return p
}

// news is the report of a change of the Mirror to its callbacks. The zero news calls none.
type news struct {
	waiting []string // UIDs of pods that now need capacity; "" for other changes
	urgent  []string // those of them whose node is interrupted
}

// anything reports, if changed is set, a change other than of a pod that a new plan may depend on.
func anything(changed bool) news {
	if !changed {
		return news{}
	}
	return news{waiting: []string{""}}
}

// losingNode reports pods that lose the node of the claim. The claim may be nil.
func losingNode(c *karpv1.NodeClaim, pods []string) news {
	if kube.Interrupted(c) {
		return news{waiting: pods, urgent: pods}
	}
	return news{waiting: pods}
}

func (n news) and(more news) news {
	return news{waiting: append(n.waiting, more.waiting...), urgent: append(n.urgent, more.urgent...)}
}

// A setter adds or replaces an object, and a remover forgets it.

func (p *parts) setPod(pod *corev1.Pod, listed bool) news { return p.podEvents.set(pod, listed) }

func (p *parts) removePod(pod *corev1.Pod) news { return p.podEvents.remove(pod) }

func (p *parts) setNode(n *corev1.Node) news {
	waiting := p.nodeEvents.setNode(n)
	claim, _ := p.nodes.claimWith(n.Spec.ProviderID)
	return losingNode(p.nodes.claim(claim), waiting)
}

func (p *parts) removeNode(n *corev1.Node) news { return news{waiting: p.nodeEvents.removeNode(n)} }

func (p *parts) setClaim(c *karpv1.NodeClaim) news { return losingNode(c, p.nodeEvents.seeClaim(c)) }

func (p *parts) removeClaim(c *karpv1.NodeClaim) news {
	return news{waiting: p.nodeEvents.removeClaim(c)}
}

func (p *parts) setPool(pool *karpv1.NodePool) news {
	old := p.pools[pool.Name]
	p.pools[pool.Name] = pool
	p.snapshot.revision.incrementIf(poolChanged(old, pool))
	return anything(p.snapshot.setPool(kube.Pool(pool)))
}

func (p *parts) removePool(pool *karpv1.NodePool) news {
	delete(p.pools, pool.Name)
	p.snapshot.removePool(pool.Name)
	return news{}
}

func (p *parts) setNamespace(n *corev1.Namespace) news {
	p.snapshot.setNamespace(n.Name, n.Labels)
	return news{}
}

func (p *parts) removeNamespace(n *corev1.Namespace) news {
	p.snapshot.removeNamespace(n.Name)
	return news{}
}

func (p *parts) setDaemon(d *appsv1.DaemonSet) news { p.daemonSets.set(d); return news{} }

func (p *parts) removeDaemon(d *appsv1.DaemonSet) news { p.daemonSets.remove(d); return news{} }

func (p *parts) setVolumeClaim(c *corev1.PersistentVolumeClaim) news {
	return p.again(p.volumes.setClaim(c))
}

func (p *parts) removeVolumeClaim(c *corev1.PersistentVolumeClaim) news {
	return p.again(p.volumes.removeClaim(c))
}

func (p *parts) setVolume(v *corev1.PersistentVolume) news { return p.again(p.volumes.setVolume(v)) }

func (p *parts) removeVolume(v *corev1.PersistentVolume) news {
	return p.again(p.volumes.removeVolume(v))
}

func (p *parts) setStorageClass(c *storagev1.StorageClass) news {
	return p.again(p.volumes.setClass(c))
}

func (p *parts) removeStorageClass(c *storagev1.StorageClass) news {
	return p.again(p.volumes.removeClass(c))
}

func (p *parts) setCSINode(n *storagev1.CSINode) news {
	return news{waiting: p.nodeEvents.report(n.Name, n)}
}

func (p *parts) removeCSINode(n *storagev1.CSINode) news {
	return news{waiting: p.nodeEvents.report(n.Name, nil)}
}

func (p *parts) setPDB(b *policyv1.PodDisruptionBudget) news {
	return anything(p.protections.setPDB(b) && p.snapshot.anyLeaving())
}

func (p *parts) removePDB(b *policyv1.PodDisruptionBudget) news {
	return anything(p.protections.removePDB(b) && p.snapshot.anyLeaving())
}

// again writes pods to the snapshot again.
func (p *parts) again(uids []string) news { return news{waiting: p.podWriter.writeAll(uids)} }

// catchUp applies changes that were put off until the snapshot is read or time has passed.
func (p *parts) catchUp(now time.Time) (waiting []string) {
	return p.podWriter.writeAll(p.protections.takeDue(now))
}

// tidy frees memory that is not needed any more.
func (p *parts) tidy() {
	p.interruptions.forgetOld(time.Now())
	p.podWriter.tidy()
	p.snapshot.tidy()
}
