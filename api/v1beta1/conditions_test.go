// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestReadySumsUp(t *testing.T) {
	for _, tc := range []struct {
		name            string
		change          func(*AKSNodeClass)
		status          metav1.ConditionStatus
		reason, message string
		isReady         bool
	}{
		{"all true", func(*AKSNodeClass) {}, metav1.ConditionTrue, "Ready", "", true},
		{"one false", func(c *AKSNodeClass) { c.SetFalse(ConditionTypeSubnetsReady, ReasonSubnetNotFound, "gone") },
			metav1.ConditionFalse, ReasonUnhealthyDependents, "SubnetsReady=False", false},
		{"one unknown", func(c *AKSNodeClass) {
			c.SetUnknown(ConditionTypeSubnetsReady, ReasonSubnetUnknownError, "timed out")
		}, metav1.ConditionUnknown, ReasonReconcilingDependents, "SubnetsReady=Unknown", false},
		{"false dominates unknown", func(c *AKSNodeClass) {
			c.SetUnknown(ConditionTypeKubernetesVersionReady, ReasonAwaitingReconciliation, "")
			c.SetFalse(ConditionTypeImagesReady, ReasonImagesNotFound, "none")
			c.SetUnknown(ConditionTypeLocalDNSReady, ReasonCheckingClusterRequirementsFailed, "")
		}, metav1.ConditionFalse, ReasonUnhealthyDependents, "KubernetesVersionReady=Unknown, ImagesReady=False, LocalDNSReady=Unknown", false},
		{"recovered", func(c *AKSNodeClass) {
			c.SetFalse(ConditionTypeSubnetsReady, ReasonSubnetNotFound, "gone")
			c.SetTrue(ConditionTypeSubnetsReady)
		}, metav1.ConditionTrue, "Ready", "", true},
		{"a new spec, half looked at", func(c *AKSNodeClass) {
			c.Generation = 2
			c.SetTrue(ConditionTypeImagesReady)
		}, metav1.ConditionUnknown, ReasonReconcilingDependents,
			"KubernetesVersionReady=Unknown, SubnetsReady=Unknown, ValidationSucceeded=Unknown, LocalDNSReady=Unknown", false},
		{"a false one about an older spec", func(c *AKSNodeClass) {
			c.SetFalse(ConditionTypeSubnetsReady, ReasonSubnetNotFound, "gone")
			c.Generation = 2
			for _, t := range []string{ConditionTypeKubernetesVersionReady, ConditionTypeImagesReady, ConditionTypeValidationSucceeded, ConditionTypeLocalDNSReady} {
				c.SetTrue(t)
			}
		}, metav1.ConditionUnknown, ReasonReconcilingDependents, "SubnetsReady=Unknown", false},
		{"fields not honoured only inform", func(c *AKSNodeClass) {
			c.SetFalse(ConditionTypeFieldsSupported, ReasonFieldsNotHonoured, "spec.localDNS has no effect")
		}, metav1.ConditionTrue, "Ready", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			class := readyClass()
			tc.change(class)
			ready := class.Condition(ConditionTypeReady)
			if ready.Status != tc.status || ready.Reason != tc.reason || ready.Message != tc.message {
				t.Errorf("Ready is %s, %s, %q; want %s, %s, %q", ready.Status, ready.Reason, ready.Message, tc.status, tc.reason, tc.message)
			}
			if got := class.IsReady(); got != tc.isReady {
				t.Errorf("IsReady() = %v", got)
			}
		})
	}
}

func TestReadyIsNotBelievedForANewerSpec(t *testing.T) {
	class := readyClass()
	class.Generation++
	if class.IsReady() {
		t.Error("a condition about an older spec made the class ready")
	}
}

func TestInitConditionsShowsWhatIsAwaited(t *testing.T) {
	class := &AKSNodeClass{}
	if !class.InitConditions() {
		t.Error("InitConditions reports no change on a fresh class")
	}
	if class.InitConditions() {
		t.Error("InitConditions reports a change the second time")
	}
	got := map[string]string{}
	for _, c := range class.Status.Conditions {
		got[c.Type] = string(c.Status) + " " + c.Reason
	}
	want := map[string]string{
		"KubernetesVersionReady": "Unknown AwaitingReconciliation",
		"ImagesReady":            "Unknown AwaitingReconciliation",
		"SubnetsReady":           "Unknown AwaitingReconciliation",
		"ValidationSucceeded":    "Unknown AwaitingReconciliation",
		"LocalDNSReady":          "Unknown AwaitingReconciliation",
		"Ready":                  "Unknown ReconcilingDependents",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := readyClass()
		before := class.Condition(ConditionTypeSubnetsReady).LastTransitionTime
		time.Sleep(time.Minute)
		if class.SetTrue(ConditionTypeSubnetsReady) {
			t.Error("setting the same condition again reports a change")
		}
		if got := class.Condition(ConditionTypeSubnetsReady).LastTransitionTime; !got.Equal(&before) {
			t.Errorf("transition time moved from %v to %v without a transition", before, got)
		}
		class.SetFalse(ConditionTypeSubnetsReady, ReasonSubnetNotFound, "gone")
		for _, conditionType := range []string{ConditionTypeSubnetsReady, ConditionTypeReady} {
			if got := class.Condition(conditionType).LastTransitionTime.Sub(before.Time); got != time.Minute {
				t.Errorf("%s changed after %v, want a minute", conditionType, got)
			}
		}
	})
}

func TestCurrentImagesAndVersionNeedAConditionAboutThisSpec(t *testing.T) {
	class := readyClass()
	if images, err := class.CurrentImages(); err != nil || len(images) != 1 {
		t.Errorf("CurrentImages() = %v, %v", images, err)
	}
	if version, err := class.CurrentKubernetesVersion(); err != nil || version != "1.34.2" {
		t.Errorf("CurrentKubernetesVersion() = %q, %v", version, err)
	}

	class.Generation = 2
	_, err := class.CurrentImages()
	if want := "AKSNodeClass default: condition ImagesReady is about generation 1, the spec is at 2"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	class.SetFalse(ConditionTypeImagesReady, ReasonImagesNotFound, "no gallery has one")
	_, err = class.CurrentImages()
	if err == nil || !strings.Contains(err.Error(), "condition ImagesReady is False: ImagesNotFound: no gallery has one") {
		t.Errorf("error %v does not carry the condition", err)
	}
	class.SetTrue(ConditionTypeKubernetesVersionReady)
	class.Status.KubernetesVersion = nil
	if _, err := class.CurrentKubernetesVersion(); err == nil {
		t.Error("no error without a version")
	}
}

func readyClass() *AKSNodeClass {
	class := &AKSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1}}
	class.Status.Images = []NodeImage{{ID: "/CommunityGalleries/g/images/i/versions/1"}}
	class.Status.KubernetesVersion = ptr.To("1.34.2")
	for _, t := range readyNeeds() {
		class.SetTrue(t)
	}
	return class
}
