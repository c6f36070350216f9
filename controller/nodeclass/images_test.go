// SPDX-License-Identifier: Apache-2.0

package nodeclass_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/provider/azure"
)

// plan is AKS's ConfigMap.
func plan(start, end string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: nodeclass.WindowConfigMap},
		Data:       map[string]string{"aksManagedNodeOSUpgradeSchedule-start": start, "aksManagedNodeOSUpgradeSchedule-end": end},
	}
}

// clock is a time that a test moves.
type clock struct{ time.Time }

// windowed has the stage heed the window, at a time of its own.
func (s *stage) windowed(now string) *clock {
	s.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		s.Fatal(err)
	}
	c := &clock{at}
	s.r.Window = nodeclass.MaintenanceWindow{Reader: s.client, Namespace: "kube-system", Now: func() time.Time { return c.Time }}
	return c
}

func (s *stage) wantImage(when, id string) {
	s.Helper()
	if got := s.class().Status.Images; len(got) != 1 || got[0].ID != id {
		s.Errorf("%s: images %v, want %s", when, got, id)
	}
}

// Outside the window a class keeps its images, whatever its spec becomes; inside it gets
// newer ones. One that has none yet does not wait.
//
// Rule IMAGE-2.
func TestImagesWaitForTheWindow(t *testing.T) {
	const ready = v1beta1.ConditionTypeImagesReady
	s := newStage(t, newClass(), plan("2026-11-22T02:00:00Z", "2026-11-22T06:00:00Z"))
	now := s.windowed("2026-11-21T12:00:00Z")
	s.reconcile()
	s.wantImage("at first, window closed", "image@1.36.3")
	s.wantCondition(ready, metav1.ConditionTrue, "ImagesReady", "")

	s.cloud.images = []v1beta1.NodeImage{{ID: "newer"}}
	s.reconcile()
	s.wantImage("window closed", "image@1.36.3")
	s.wantCondition(ready, metav1.ConditionTrue, nodeclass.ReasonMaintenanceWindowClosed, "opens at 2026-11-22T02:00:00Z")
	class := s.class()
	class.Generation = 2
	if err := s.client.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	s.wantImage("window closed, spec changed", "image@1.36.3")
	if !s.class().IsReady() {
		t.Error("a class that keeps its images is not ready")
	}

	now.Time = now.Add(14 * time.Hour) // its first instant
	s.reconcile()
	s.wantImage("window open", "newer@1.36.3")
	s.wantCondition(ready, metav1.ConditionTrue, "ImagesReady", "")

	s.cloud.images = []v1beta1.NodeImage{{ID: "newest"}}
	now.Time = now.Add(4 * time.Hour) // its end
	s.reconcile()
	s.wantImage("window is over", "newer@1.36.3")
	s.wantCondition(ready, metav1.ConditionTrue, nodeclass.ReasonMaintenanceWindowClosed, "the next maintenance window")
}

// Images of another Kubernetes do not wait, not even when they could not be found at once.
//
// Rule IMAGE-2.
func TestUpgradesDoNotWaitForTheWindow(t *testing.T) {
	s := newStage(t, newClass(), plan("2026-11-22T02:00:00Z", "2026-11-22T06:00:00Z"))
	s.windowed("2026-11-21T12:00:00Z")
	s.reconcile()
	s.server.version, s.cloud.imageErr = "v1.37.0", errors.New("503")
	s.reconcile()
	s.wantImage("galleries down", "image@1.36.3")
	s.wantCondition(v1beta1.ConditionTypeImagesReady, metav1.ConditionTrue, v1beta1.ReasonKubernetesUpgrade, "503")
	s.reconcile()
	s.cloud.imageErr = nil
	s.reconcile()
	s.wantImage("upgraded", "image@1.37.0")
	s.server.version = "v1.37.1"
	s.reconcile()
	s.wantImage("upgraded again", "image@1.37.1")
}

// A window that cannot be parsed is not open: nodes must not be replaced because a user
// mistyped a time. Without a plan it is open.
//
// Rule IMAGE-2.
func TestWindowThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		plan   client.Object
		hold   bool
		reason string
		words  string
	}{
		"no plan":        {newClaimless(), false, "ImagesReady", ""},
		"empty times":    {plan("", ""), false, "ImagesReady", ""},
		"no end":         {plan("2026-11-22T02:00:00Z", ""), true, nodeclass.ReasonMaintenanceWindowUnknown, "aksManagedNodeOSUpgradeSchedule-end"},
		"no start":       {plan("", "2026-11-22T02:00:00Z"), true, nodeclass.ReasonMaintenanceWindowUnknown, "aksManagedNodeOSUpgradeSchedule-start"},
		"not a time":     {plan("tonight", "2026-11-22T02:00:00Z"), true, nodeclass.ReasonMaintenanceWindowUnknown, `"tonight", which is no time`},
		"open":           {plan("2026-11-20T02:00:00Z", "2026-11-22T02:00:00Z"), false, "ImagesReady", ""},
		"in local time":  {plan("2026-11-21T13:30:00+02:00", "2026-11-21T15:00:00+02:00"), false, "ImagesReady", ""},
		"end before all": {plan("2026-11-20T02:00:00Z", "2026-11-19T02:00:00Z"), true, nodeclass.ReasonMaintenanceWindowClosed, "next"},
	} {
		s := newStage(t, newClass(), test.plan)
		s.windowed("2026-11-21T12:00:00Z")
		s.reconcile()
		s.reconcile()
		s.wantCondition(v1beta1.ConditionTypeImagesReady, metav1.ConditionTrue, test.reason, test.words)
		if s.cloud.selected.KeepCurrent != test.hold || !s.class().IsReady() {
			t.Errorf("%s: images are held: %v, the class is ready: %v", name, s.cloud.selected.KeepCurrent, s.class().IsReady())
		}
	}
}

// newClaimless is an object that means nothing here.
func newClaimless() client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: nodeclass.WindowConfigMap}}
}

// A version that is named takes effect at once, in a closed window too. One that is
// misspelt changes nothing where there are images, since the newest would replace the
// nodes that were to be held back.
//
// Rule IMAGE-4.
func TestNamedVersionDoesNotWait(t *testing.T) {
	const ready = v1beta1.ConditionTypeImagesReady
	s := newStage(t, newClass(), plan("2026-11-22T02:00:00Z", "2026-11-22T06:00:00Z"))
	s.windowed("2026-11-21T12:00:00Z")
	annotate := func(value string) {
		t.Helper()
		class := s.class()
		if class.Annotations == nil {
			class.Annotations = map[string]string{}
		}
		class.Annotations[azure.AnnotationImageVersion] = value
		if err := s.client.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		s.reconcile()
	}
	annotate("newest")
	s.wantCondition(ready, metav1.ConditionFalse, nodeclass.ReasonImageAnnotationInvalid, "it must be a version of a node image")
	annotate("202510.19.0")
	s.wantCondition(ready, metav1.ConditionTrue, "ImagesReady", "")
	if s.cloud.selected.Version != "202510.19.0" || s.cloud.selected.KeepCurrent {
		t.Errorf("wished for %+v", s.cloud.selected)
	}
	annotate("2025")
	s.wantImage("misspelt", "image@1.36.3")
	s.wantCondition(ready, metav1.ConditionTrue, nodeclass.ReasonCannotBeRefreshed, "it must be a version of a node image")
}

// The images that a class must start new nodes from while its images are held back, because its
// own were deleted, make no node drift before the window opens: the class records the images it
// had, whatever follows in between.
//
// Rule IMAGE-3.
func TestImagesThatAreLostReplaceNobody(t *testing.T) {
	const ready = v1beta1.ConditionTypeImagesReady
	gallery := func(version string) []v1beta1.NodeImage {
		return []v1beta1.NodeImage{{ID: "/CommunityGalleries/g/images/Gen2/versions/" + version}}
	}
	for name, lose := range map[string]func(s *stage, annotate func(string)){
		"for another": func(*stage, func(string)) {},
		"for none": func(s *stage, _ func(string)) {
			s.cloud.imageErr = azure.ErrNoImages
			s.reconcile()
			s.wantCondition(ready, metav1.ConditionFalse, v1beta1.ReasonImagesNotFound, "")
		},
		"for a name that does not exist": func(s *stage, annotate func(string)) {
			s.cloud.imageErr = azure.ErrNoImages
			annotate("202501.01.0")
			s.wantCondition(ready, metav1.ConditionFalse, v1beta1.ReasonImagesNotFound, "")
			annotate("")
		},
		"and galleries are down": func(s *stage, _ func(string)) {
			s.reconcile()
			s.cloud.imageErr = errors.New("503")
			s.reconcile()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, newClass(), plan("2026-11-22T02:00:00Z", "2026-11-22T06:00:00Z"))
			now := s.windowed("2026-11-21T12:00:00Z")
			s.cloud.images = gallery("1.0.0")
			s.reconcile()
			s.cloud.images, s.cloud.lost = gallery("2.0.0"), true
			lose(s, func(version string) {
				class := s.class()
				metav1.SetMetaDataAnnotation(&class.ObjectMeta, azure.AnnotationImageVersion, version)
				if version == "" {
					delete(class.Annotations, azure.AnnotationImageVersion)
				}
				if err := s.client.Update(t.Context(), class); err != nil {
					t.Fatal(err)
				}
				s.reconcile()
			})
			s.cloud.imageErr = nil
			for range 2 {
				s.reconcile()
				class := s.class()
				if kept := azure.ToleratedImages(class)["gen2"]; kept != "1.0.0@1.36.3" || class.Status.Images[0].ID != gallery("2.0.0")[0].ID+"@1.36.3" {
					t.Errorf("images %v, kept %q", class.Status.Images, kept)
				}
				s.wantCondition(ready, metav1.ConditionTrue, nodeclass.ReasonMaintenanceWindowClosed, "because Azure has no more 1.0.0")
			}
			now.Time = now.Add(14 * time.Hour)
			s.reconcile()
			if kept := azure.ToleratedImages(s.class()); kept != nil {
				t.Errorf("kept after the window opened: %v", kept)
			}
			s.wantCondition(ready, metav1.ConditionTrue, "ImagesReady", "")
		})
	}
}
