// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// PodShape is what pods ask of a node, regardless of other pods. Classes that differ only in
// spread constraints, pod affinity, priority, namespace or labels share one.
type PodShape struct {
	// Requests includes one attachment per volume that only the pod itself mounts. It is
	// computed again when the positions of resources change.
	Requests quantity.Vector
	// Dims lists the resources in Requests.
	Dims []quantity.Dim
	// Alternatives are the label requirements, including those of volumes: one set must hold.
	// There is always at least one, possibly empty. An impossible set is kept in the list so
	// that it can be explained.
	Alternatives []constraint.Set
	// Keys are the labels that Alternatives look at, without the hostname; UsesHostname is set
	// when Alternatives look at the hostname.
	Keys         []*constraint.Key
	UsesHostname bool
	Tolerations  []Toleration
	// Mounts are volumes that other pods may mount too: each is attached once per node.
	Mounts []Mount
	// Ports are the host ports that the pods take.
	Ports []Port
	// AvoidSoft keeps the pods off nodes with PreferNoSchedule taints that they do not tolerate.
	AvoidSoft bool
	// Refused says why nothing can be planned for the shape; empty when it can be planned for.
	Refused reason.Reason
	Detail  string
	Facts   reason.Facts // the parameters of Detail

	requestsByName quantity.Amounts // Requests by name
	own            []constraint.Set // Alternatives without the requirements of volumes
	volumes        []Volume         // of the first pod of the shape; those of the others are equivalent
	size           int64
	compatible     map[*PoolCatalog]*CompatibleOfferings
	matchingOwn    map[*PoolCatalog]bitset.Set // see PoolCatalog.MatchingOwn
	// variants turn preferences of the shape's classes into requirements; see
	// PodClass.Requiring.
	variants map[string]*PodShape
	key      string
	users    int // classes that have the shape
}

// Mount is a volume that is attached once per node, however many pods there mount it.
type Mount struct {
	Volume string
	Dim    quantity.Dim
}

// maxAlternatives bounds the product of the OR-terms of affinity and volumes. Real pods
// have a handful; only a hostile manifest has more.
const maxAlternatives = 512

// newPodShape compiles the shape of a pod, but for its vectors: see updateVectors.
func newPodShape(interner *constraint.Interner, p *Pod, key string) *PodShape {
	s := &PodShape{Tolerations: p.Tolerations, Ports: p.Ports, volumes: p.Volumes, requestsByName: requestsOf(p), key: key}
	s.size = sizeOf(s.requestsByName)
	own, err := alternatives(interner, p.Required, p.AnyOf)
	s.own, s.Alternatives = own, own
	if err == nil {
		s.Alternatives, err = mountable(interner, own, p.Volumes)
	}
	s.setKeys()
	switch {
	case err != nil:
		s.Refused, s.Detail, s.Facts = reason.Invalid, err.Error(), factsOf(err)
	case optsOut(interner, s.own):
		s.Refused, s.Detail = reason.OptedOut, "the pod requires that "+LabelNodePool+" does not exist"
		s.Facts = reason.FactsOf(map[string]any{"key": LabelNodePool})
	}
	return s
}

// setKeys sets Keys and UsesHostname to the labels that the alternatives look at.
func (s *PodShape) setKeys() {
	for _, alt := range s.Alternatives {
		for _, q := range alt {
			switch {
			case q.Key.Name == LabelHostname:
				s.UsesHostname = true
			case !slices.Contains(s.Keys, q.Key):
				s.Keys = append(s.Keys, q.Key)
			}
		}
	}
}

// requestsOf returns the requests of one pod, plus one attachment per volume that only it
// mounts.
func requestsOf(p *Pod) quantity.Amounts {
	attach := quantity.Amounts{}
	for _, v := range p.Volumes {
		if v.Driver != "" && !v.Shared {
			attach[quantity.Attachable+v.Driver]++
		}
	}
	if len(attach) == 0 {
		return p.Requests
	}
	return p.Requests.Add(attach)
}

// sizeOf ranks requests as quantity.Size does, and before all others those of extended resources.
func sizeOf(requests quantity.Amounts) int64 {
	size := quantity.Size(requests[quantity.NameCPU], requests[quantity.NameMemory])
	for name, n := range requests {
		if n > 0 && quantity.IsExtended(name) {
			size += 1 << 40 // pods that request an extended resource are placed before all others
		}
	}
	return size
}

// alternatives compiles required terms of which all of required and one of anyOf must hold.
func alternatives(interner *constraint.Interner, required Term, anyOf []Term) ([]constraint.Set, error) {
	base, err := interner.Set(required)
	if err != nil {
		return nil, err
	}
	if len(anyOf) == 0 {
		return []constraint.Set{base}, nil
	}
	return cross(interner, []constraint.Set{base}, anyOf)
}

// mountable narrows the alternatives to places where every volume can be mounted.
func mountable(interner *constraint.Interner, sets []constraint.Set, volumes []Volume) ([]constraint.Set, error) {
	for _, v := range volumes {
		if len(v.AnyOf) == 0 {
			continue
		}
		narrowed, err := cross(interner, sets, v.AnyOf)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.ID, err)
		}
		if slices.ContainsFunc(narrowed, possible) {
			narrowed = slices.DeleteFunc(narrowed, func(s constraint.Set) bool { return !possible(s) })
		}
		sets = narrowed
	}
	return sets, nil
}

func possible(s constraint.Set) bool {
	_, bad := s.Impossible()
	return !bad
}

// cross combines every set with every term.
func cross(interner *constraint.Interner, sets []constraint.Set, terms []Term) ([]constraint.Set, error) {
	if len(sets)*len(terms) > maxAlternatives {
		return nil, manifestErrorf(map[string]any{"alternatives": len(sets) * len(terms), "most": maxAlternatives}, "affinity and volumes combine to more than %d alternatives", maxAlternatives)
	}
	out := make([]constraint.Set, 0, len(sets)*len(terms))
	for _, term := range terms {
		more, err := interner.Set(term)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			out = append(out, set.And(more))
		}
	}
	return out, nil
}

// optsOut reports whether the pod may only run on nodes without a NodePool: Karpenter's
// explicit opt-out.
func optsOut(interner *constraint.Interner, alternatives []constraint.Set) bool {
	pool := interner.Key(LabelNodePool)
	for _, alt := range alternatives {
		q, ok := alt.Get(pool)
		if !ok || q.AdmitsSomeValue() || !q.AdmitsAbsent() {
			return false
		}
	}
	return len(alternatives) > 0
}

// OwnRequirements are the requirements of the pods' own node selector and affinity, without
// those of volumes: one set must hold.
func (s *PodShape) OwnRequirements() []constraint.Set { return s.own }

// HasNodeConstraints reports whether the pods' own node selector or affinity requires
// anything.
func (s *PodShape) HasNodeConstraints() bool { return len(s.own) != 1 || len(s.own[0]) > 0 }

// extendedRequests are the extended resources that a pod of the shape takes of its node, including
// those of shared volumes.
func (s *PodShape) extendedRequests() quantity.Amounts {
	var out quantity.Amounts
	for name, n := range s.requestsAlone() {
		if n <= 0 || !quantity.IsExtended(name) {
			continue
		}
		if out == nil {
			out = quantity.Amounts{}
		}
		out[name] = n
	}
	return out
}

// requestsAlone is what one pod of the shape takes on an otherwise empty node.
func (s *PodShape) requestsAlone() quantity.Amounts {
	attach := quantity.Amounts{}
	for _, v := range s.volumes {
		if v.Driver != "" && v.Shared {
			attach[quantity.Attachable+v.Driver]++
		}
	}
	if len(attach) == 0 {
		return s.requestsByName
	}
	return s.requestsByName.Add(attach)
}

// updateVectors computes the shape's vectors and drops the memos that depend on the old ones.
func (s *PodShape) updateVectors(resources *quantity.Positions) {
	s.Requests, s.Dims, s.Mounts = resources.RequestVector(s.requestsByName), nil, nil
	for d, n := range s.Requests {
		if n > 0 {
			s.Dims = append(s.Dims, quantity.Dim(d))
		}
	}
	for _, v := range s.volumes {
		if v.Driver == "" || !v.Shared {
			continue
		}
		if d, limited := resources.RequestPosition(quantity.Attachable + v.Driver); limited {
			s.Mounts = append(s.Mounts, Mount{Volume: v.ID, Dim: d})
		}
	}
	s.compatible, s.matchingOwn, s.variants = map[*PoolCatalog]*CompatibleOfferings{}, map[*PoolCatalog]bitset.Set{}, nil
}
