// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodFacts are what karve asks of a pod's object again and again while it keeps a snapshot current.
// They are read once, when a watch shows the object. Equal facts mean that decisions about the
// pod's node differ at most by what the snapshot shows.
type PodFacts struct {
	Owner     types.UID // see OwnerOf
	DaemonSet string    // see DaemonSetOf

	Phase       corev1.PodPhase
	Terminating bool
	Started     bool
	Ready       bool

	// Terminal and the facts that follow are the functions of the same name.
	Terminal                 bool
	Provisionable            bool
	Reschedulable            bool
	EvictableUnlessProtected bool
	ReplacedAtOnce           bool
	OwnedByNode              bool

	// DoNotDisrupt is the value of the annotation, empty when there is none.
	DoNotDisrupt        string
	InvalidDoNotDisrupt bool
	ProtectedUntil      time.Time // see ProtectedUntil
	// DeletionCost is the value of the annotation that EvictionCost reads.
	DeletionCost string
}

// PodFactsOf reads the facts of a pod.
func PodFactsOf(p *corev1.Pod) PodFacts {
	value, has := DoNotDisruptValue(p)
	f := PodFacts{
		Owner:                    OwnerOf(p),
		DaemonSet:                DaemonSetOf(p),
		Phase:                    p.Status.Phase,
		Terminating:              p.DeletionTimestamp != nil,
		Started:                  p.Status.StartTime != nil,
		Ready:                    PodReady(p),
		Terminal:                 Terminal(p),
		Provisionable:            Provisionable(p),
		Reschedulable:            Reschedulable(p),
		EvictableUnlessProtected: EvictableUnlessProtected(p),
		ReplacedAtOnce:           ReplacedAtOnce(p),
		OwnedByNode:              OwnedByNode(p),
		DeletionCost:             p.Annotations[corev1.PodDeletionCost],
	}
	if has {
		f.DoNotDisrupt, f.InvalidDoNotDisrupt, f.ProtectedUntil = value, InvalidDoNotDisrupt(p) != nil, ProtectedUntil(p)
	}
	return f
}
