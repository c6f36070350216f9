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
	builder *builder

	pods          *podStore
	nodes         *nodeStore
	pools         map[string]*karpv1.NodePool
	catalogs      *catalogs
	daemonSets    *daemonSets
	volumes       *volumes
	nominations   *nominations
	replacements  *replacements
	protections   *protections
	activity      activity
	interruptions *interruptions

	podWriter  *podWriter
	nodeWriter *nodeWriter
	podEvents  *podEvents
	nodeEvents *nodeEvents
	evictions  *evictions
	nominator  *nominator
	moves      *moves
}

func newParts(r *revision, pdbs *PDBs) parts {
	p := parts{
		builder: newBuilder(r), pods: newPodStore(), nodes: newNodeStore(), pools: map[string]*karpv1.NodePool{},
		catalogs: newCatalogs(), volumes: newVolumes(), nominations: newNominations(r), replacements: newReplacements(),
		activity: activity{},
	}
	p.daemonSets = newDaemonSets(p.builder)
	p.protections = newProtections(r, p.pods, pdbs)
	p.interruptions = &interruptions{pods: p.pods, nodes: p.nodes, nominations: p.nominations, replacements: p.replacements, owners: map[types.UID]time.Time{}}
	p.podWriter = &podWriter{pods: p.pods, nodes: p.nodes, nominations: p.nominations, replacements: p.replacements,
		protections: p.protections, volumes: p.volumes, builder: p.builder}
	p.nodeWriter = &nodeWriter{nodes: p.nodes, catalogs: p.catalogs, nominations: p.nominations, builder: p.builder, pods: p.podWriter}
	p.nodeEvents = &nodeEvents{revision: r, nodes: p.nodes, catalogs: p.catalogs, nominations: p.nominations,
		activity: p.activity, builder: p.builder, pods: p.podWriter, writer: p.nodeWriter}
	p.evictions = &evictions{pods: p.pods, nominations: p.nominations, replacements: p.replacements, podWriter: p.podWriter}
	p.nominator = &nominator{pods: p.pods, nodes: p.nodes, nominations: p.nominations, replacements: p.replacements,
		evictions: p.evictions, builder: p.builder, podWriter: p.podWriter}
	p.podEvents = &podEvents{revision: r, pods: p.pods, nodes: p.nodes, activity: p.activity, protections: p.protections,
		volumes: p.volumes, nominations: p.nominations, replacements: p.replacements, daemonSets: p.daemonSets,
		interruptions: p.interruptions, evictions: p.evictions, nominator: p.nominator, podWriter: p.podWriter}
	p.moves = &moves{nodes: p.nodes, pods: p.pods, nominations: p.nominations, builder: p.builder, podWriter: p.podWriter,
		nodeWriter: p.nodeWriter, nodeEvents: p.nodeEvents, nominator: p.nominator}
	return p
}

// callbacks are the calls of the Mirror's callbacks that a change causes. The zero value is none.
type callbacks struct {
	waiting []string // UIDs of pods that now need capacity; "" for other changes
	urgent  []string // those of them whose node is interrupted
}

// otherChange reports, if changed is set, a change other than of a pod that a new plan may depend
// on.
func otherChange(changed bool) callbacks {
	if !changed {
		return callbacks{}
	}
	return callbacks{waiting: []string{""}}
}

// podsLosingNode reports pods that lose the node of the claim. The claim may be nil.
func podsLosingNode(c *karpv1.NodeClaim, pods []string) callbacks {
	if kube.Interrupted(c) {
		return callbacks{waiting: pods, urgent: pods}
	}
	return callbacks{waiting: pods}
}

func (n callbacks) join(more callbacks) callbacks {
	return callbacks{waiting: append(n.waiting, more.waiting...), urgent: append(n.urgent, more.urgent...)}
}

// A setter adds or replaces an object, and a remover forgets it.

func (p *parts) setPod(pod *corev1.Pod, listed bool) callbacks { return p.podEvents.set(pod, listed) }

func (p *parts) removePod(pod *corev1.Pod) callbacks { return p.podEvents.remove(pod) }

func (p *parts) setNode(n *corev1.Node) callbacks {
	waiting := p.nodeEvents.setNode(n)
	claim, _ := p.nodes.claimWith(n.Spec.ProviderID)
	return podsLosingNode(p.nodes.claim(claim), waiting)
}

func (p *parts) removeNode(n *corev1.Node) callbacks {
	return callbacks{waiting: p.nodeEvents.removeNode(n)}
}

func (p *parts) setClaim(c *karpv1.NodeClaim) callbacks {
	return podsLosingNode(c, p.nodeEvents.setWatchedClaim(c))
}

func (p *parts) removeClaim(c *karpv1.NodeClaim) callbacks {
	return callbacks{waiting: p.nodeEvents.removeClaim(c)}
}

func (p *parts) setPool(pool *karpv1.NodePool) callbacks {
	old := p.pools[pool.Name]
	p.pools[pool.Name] = pool
	p.builder.revision.incrementIf(poolChanged(old, pool))
	return otherChange(p.builder.setPool(kube.Pool(pool)))
}

func (p *parts) removePool(pool *karpv1.NodePool) callbacks {
	delete(p.pools, pool.Name)
	p.builder.removePool(pool.Name)
	return callbacks{}
}

func (p *parts) setNamespace(n *corev1.Namespace) callbacks {
	p.builder.setNamespace(n.Name, n.Labels)
	return callbacks{}
}

func (p *parts) removeNamespace(n *corev1.Namespace) callbacks {
	p.builder.removeNamespace(n.Name)
	return callbacks{}
}

func (p *parts) setDaemon(d *appsv1.DaemonSet) callbacks { p.daemonSets.set(d); return callbacks{} }

func (p *parts) removeDaemon(d *appsv1.DaemonSet) callbacks {
	p.daemonSets.remove(d)
	return callbacks{}
}

func (p *parts) setVolumeClaim(c *corev1.PersistentVolumeClaim) callbacks {
	return p.writePods(p.volumes.setClaim(c))
}

func (p *parts) removeVolumeClaim(c *corev1.PersistentVolumeClaim) callbacks {
	return p.writePods(p.volumes.removeClaim(c))
}

func (p *parts) setVolume(v *corev1.PersistentVolume) callbacks {
	return p.writePods(p.volumes.setVolume(v))
}

func (p *parts) removeVolume(v *corev1.PersistentVolume) callbacks {
	return p.writePods(p.volumes.removeVolume(v))
}

func (p *parts) setStorageClass(c *storagev1.StorageClass) callbacks {
	return p.writePods(p.volumes.setClass(c))
}

func (p *parts) removeStorageClass(c *storagev1.StorageClass) callbacks {
	return p.writePods(p.volumes.removeClass(c))
}

func (p *parts) setCSINode(n *storagev1.CSINode) callbacks {
	return callbacks{waiting: p.nodeEvents.setCSINode(n.Name, n)}
}

func (p *parts) removeCSINode(n *storagev1.CSINode) callbacks {
	return callbacks{waiting: p.nodeEvents.setCSINode(n.Name, nil)}
}

func (p *parts) setPDB(b *policyv1.PodDisruptionBudget) callbacks {
	return otherChange(p.protections.setPDB(b) && p.builder.anyLeaving())
}

func (p *parts) removePDB(b *policyv1.PodDisruptionBudget) callbacks {
	return otherChange(p.protections.removePDB(b) && p.builder.anyLeaving())
}

// writePods writes pods to the snapshot again.
func (p *parts) writePods(uids []string) callbacks {
	return callbacks{waiting: p.podWriter.writeAll(uids)}
}

// writeDue applies changes that were put off until the snapshot is read or time has passed.
func (p *parts) writeDue(now time.Time) (waiting []string) {
	return p.podWriter.writeAll(p.protections.takeDue(now))
}

// tidy frees memory that is not needed any more.
func (p *parts) tidy() {
	p.interruptions.forgetOld(time.Now())
	p.podWriter.tidy()
	p.builder.tidy()
}
