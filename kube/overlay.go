// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/engine/offering"
)

// Overlay converts a NodeOverlay. Its error says which part cannot be read.
func Overlay(o *karpv1alpha1.NodeOverlay) (offering.Overlay, error) {
	change, err := priceChange(&o.Spec)
	if err != nil {
		return offering.Overlay{}, fmt.Errorf("reading nodeoverlay %s: %w", o.Name, err)
	}
	requirements := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, len(o.Spec.Requirements))
	for _, r := range o.Spec.Requirements {
		requirements = append(requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return offering.Overlay{
		Name:     o.Name,
		Weight:   ptr.Deref(o.Spec.Weight, 0),
		Rules:    Rules(requirements),
		Price:    change,
		Capacity: Amounts(corev1.ResourceList(o.Spec.Capacity)),
	}, nil
}

func priceChange(s *karpv1alpha1.NodeOverlaySpec) (offering.PriceChange, error) {
	switch {
	case s.Price != nil && s.PriceAdjustment != nil:
		return offering.PriceChange{}, errors.New("both price and priceAdjustment are set: choose one")
	case s.Price != nil:
		return offering.ParsePrice(*s.Price)
	case s.PriceAdjustment != nil:
		return offering.ParseAdjustment(*s.PriceAdjustment)
	}
	return offering.PriceChange{}, nil
}
