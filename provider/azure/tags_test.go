// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// A node in flight while karve is upgraded has not drifted because hashes are computed
// differently now; one whose class was changed has.
//
// Rule DRIFT-7.
func TestHashOfAnEarlierKarve(t *testing.T) {
	class := &v1beta1.AKSNodeClass{}
	class.Annotations = map[string]string{v1beta1.AnnotationHash: "new", v1beta1.AnnotationHashVersion: v1beta1.HashVersion}
	for name, test := range map[string]struct {
		tags map[string]string
		want string
	}{
		"another formula":        {map[string]string{tagClassHash: "old", tagHashVersion: "v2"}, ""},
		"the class was changed":  {map[string]string{tagClassHash: "old", tagHashVersion: v1beta1.HashVersion}, NodeClassDrift},
		"the same":               {map[string]string{tagClassHash: "new", tagHashVersion: v1beta1.HashVersion}, ""},
		"changed, and says none": {map[string]string{tagClassHash: "old"}, NodeClassDrift},
	} {
		vm := &virtualMachine{VirtualMachine: &armcompute.VirtualMachine{Tags: armtext.Pointers(test.tags)}}
		drift, err := classDrift(class, provider.LaunchedNode{Annotations: annotations(vm)})
		if err != nil || drift.Reason != test.want {
			t.Errorf("%s: %+v, %v; want %q", name, drift, err, test.want)
		}
	}
}
