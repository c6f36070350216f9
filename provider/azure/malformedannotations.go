// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
)

// MalformedAnnotations describes AnnotationSpotMaxPrice of a node class when it cannot be parsed;
// ImageSelectionOf reports those of images.
func MalformedAnnotations(class *v1beta1.AKSNodeClass) []string {
	var fields []string
	if _, err := pricing.SpotLimitOf(class); err != nil {
		fields = append(fields, err.Error())
	}
	return fields
}
