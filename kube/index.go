// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Names of the field indexes that controllers look objects up by.
const (
	IndexNodeProviderID  = "spec.providerID"
	IndexClaimProviderID = "status.providerID"
	IndexPodNode         = "spec.nodeName"
	IndexAttachmentNode  = "spec.nodeName"
)

// Indexes lists every index to build, for caches and for in-memory clients.
func Indexes() []Index {
	return []Index{
		{&corev1.Node{}, IndexNodeProviderID, by(func(n *corev1.Node) string { return n.Spec.ProviderID })},
		{&karpv1.NodeClaim{}, IndexClaimProviderID, by(func(c *karpv1.NodeClaim) string { return c.Status.ProviderID })},
		{&corev1.Pod{}, IndexPodNode, by(func(p *corev1.Pod) string { return p.Spec.NodeName })},
		{&storagev1.VolumeAttachment{}, IndexAttachmentNode, by(func(a *storagev1.VolumeAttachment) string { return a.Spec.NodeName })},
	}
}

// Index defines how objects of one kind are found by a field.
type Index struct {
	Of      client.Object
	Field   string
	Extract client.IndexerFunc
}

// AddIndexes registers all indexes.
func AddIndexes(ctx context.Context, to client.FieldIndexer) error {
	for _, i := range Indexes() {
		if err := to.IndexField(ctx, i.Of, i.Field, i.Extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.Of, i.Field, err)
		}
	}
	return nil
}

func by[T client.Object](field func(T) string) client.IndexerFunc {
	return func(obj client.Object) []string {
		if x, ok := obj.(T); ok {
			if value := field(x); value != "" {
				return []string{value}
			}
		}
		return nil
	}
}
