package azure

import (
	"github.com/karve-dev/karve/api/v1beta1"
)

// Unhonoured lists, in words, the fields of a class that are set and have no
// effect on its nodes yet. Silence about them would be a promise.
func Unhonoured(class *v1beta1.AKSNodeClass) []string {
	var fields []string
	if _, err := spotLimitOf(class); err != nil {
		fields = append(fields, err.Error())
	}
	return fields
}
