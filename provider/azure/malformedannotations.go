// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
)

// MalformedAnnotations describes the annotations of a node class that cannot be parsed.
func MalformedAnnotations(class *v1beta1.AKSNodeClass) []string {
	var fields []string
	if _, err := pricing.SpotLimitOf(class); err != nil {
		fields = append(fields, err.Error())
	}
	return fields
}
