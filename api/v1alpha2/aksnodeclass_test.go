// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/karve-dev/karve/api/v1beta1"
)

// The API server turns one version into the other by writing another
// apiVersion on it; nothing may change or get lost on the way.
func TestAManifestIsTheSameInBothVersions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	decode := func(version string) runtime.Object {
		object, _, err := decoder.Decode([]byte(`{"apiVersion":"karpenter.azure.com/`+version+`","kind":"AKSNodeClass","metadata":{"name":"default"},
			"spec":{"imageFamily":"AzureLinux","osDiskSizeGB":128,"kubelet":{"cpuCFSQuotaPeriod":"200ms"}},
			"status":{"kubernetesVersion":"1.34.2","images":[{"id":"i","requirements":[]}]}}`), nil, nil)
		if err != nil {
			t.Fatalf("decoding %s: %v", version, err)
		}
		return object
	}
	old, current := decode("v1alpha2").(*AKSNodeClass), decode("v1beta1").(*v1beta1.AKSNodeClass)
	want := &AKSNodeClass{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: v1beta1.Kind}, ObjectMeta: current.ObjectMeta, Spec: current.Spec, Status: current.Status}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("v1alpha2 (-v1beta1 +v1alpha2):\n%s", diff)
	}
}
