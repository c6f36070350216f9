// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/disrupt"
)

// Rule BLOCK-4: an annotation with an invalid value is reported on its pod.
func TestInvalidAnnotationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := scripted(t, 1, disrupt.Underutilized)
		p := controllertest.Get(e, &corev1.Pod{}, "web-0")
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "please"}
		if err := e.API.Update(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		const want = `InvalidDoNotDisruptAnnotation: Invalid karpenter.sh/do-not-disrupt annotation: ` +
			`failed to parse "please" as a duration: time: invalid duration "please", ignoring annotation`
		e.Until(10, "the pod is told", func() bool { return slices.Contains(e.EventTexts("web-0"), want) })
	})
}
