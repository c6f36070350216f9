package azure

import (
	"github.com/karve-dev/karve/api/v1beta1"
)

// Unhonoured describes the fields of a node class that are set and have no effect on its nodes.
func Unhonoured(class *v1beta1.AKSNodeClass) []string {
	var fields []string
	if _, err := spotLimitOf(class); err != nil {
		fields = append(fields, err.Error())
	}
	return fields
}
