// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// settledClass returns a node class whose status is complete.
func settledClass(version string, images ...string) *v1beta1.AKSNodeClass {
	c := class(version)
	for _, id := range images {
		c.Status.Images = append(c.Status.Images, v1beta1.NodeImage{ID: id})
	}
	for _, condition := range []string{
		v1beta1.ConditionTypeKubernetesVersionReady, v1beta1.ConditionTypeImagesReady, v1beta1.ConditionTypeSubnetsReady,
		v1beta1.ConditionTypeValidationSucceeded, v1beta1.ConditionTypeLocalDNSReady,
	} {
		c.SetTrue(condition)
	}
	c.Annotations = map[string]string{v1beta1.AnnotationHash: c.Hash(), v1beta1.AnnotationHashVersion: v1beta1.HashVersion}
	return c
}

func image(definition, version string) string {
	return fmt.Sprintf("/CommunityGalleries/AKSUbuntu-1/images/%s/versions/%s", definition, version)
}

// A node has drifted when a new one would certainly differ. A newer node has not drifted, and
// neither has one about which something is unknown.
//
// Rule DRIFT-5, Rule IMAGE-3.
func TestDriftOfVMs(t *testing.T) {
	gen2 := image("2204gen2containerd", "202512.09.0")
	hashed := func(hash, version string) map[string]string {
		return map[string]string{v1beta1.AnnotationHash: hash, v1beta1.AnnotationHashVersion: version}
	}
	made := func(version string) map[string]string {
		return map[string]string{azure.AnnotationKubernetesVersion: version}
	}
	for name, tc := range map[string]struct {
		change func(*v1beta1.AKSNodeClass)
		m      provider.LaunchedNode
		want   string
		open   bool // it could not be found out
	}{
		"nothing is known of it":        {m: provider.LaunchedNode{}},
		"same image":                    {m: provider.LaunchedNode{ImageID: gen2}},
		"newer image":                   {m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202511.30.0")}, want: azure.ImageDrift},
		"numbers, not letters":          {m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202512.9.0")}},
		"image was withdrawn":           {m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202601.01.0")}},
		"definition was lost":           {m: provider.LaunchedNode{ImageID: image("2204gen2arm64containerd", "202501.01.0")}},
		"shared gallery, same version":  {m: provider.LaunchedNode{ImageID: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/AKSUbuntu/images/2204gen2containerd/versions/202512.09.0"}},
		"shared gallery, older version": {m: provider.LaunchedNode{ImageID: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/AKSUbuntu/images/2204Gen2containerd/versions/202412.09.0"}, want: azure.ImageDrift},
		"the class lost the image":      {change: keeps("202511.30.0"), m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202511.30.0")}},
		"older than the one lost":       {change: keeps("202511.30.0"), m: provider.LaunchedNode{ImageID: image("2204Gen2containerd", "202511.29.0")}, want: azure.ImageDrift},
		"between lost and new":          {change: keeps("202511.30.0"), m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202512.01.0")}},
		"new is older than lost":        {change: keeps("202601.01.0"), m: provider.LaunchedNode{ImageID: gen2}},
		"kept cannot be read":           {change: keeps(`","`), m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202511.30.0")}, want: azure.ImageDrift},
		"lost, but another is named": {
			change: func(c *v1beta1.AKSNodeClass) {
				keeps("202511.30.0")(c)
				c.Annotations[azure.AnnotationImageVersion] = "202512.09.0"
			},
			m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202511.30.0")}, want: azure.ImageDrift,
		},
		"an image that is no version": {m: provider.LaunchedNode{ImageID: "/subscriptions/s/images/mine"}},
		"images of an older spec": {
			change: func(c *v1beta1.AKSNodeClass) { c.Generation++ },
			m:      provider.LaunchedNode{ImageID: image("2204gen2containerd", "202511.30.0")}, open: true,
		},
		"no images": {
			change: func(c *v1beta1.AKSNodeClass) {
				c.Status.Images = nil
				c.SetUnknown(v1beta1.ConditionTypeImagesReady, "LookupFailed", "")
			},
			m: provider.LaunchedNode{ImageID: gen2}, open: true,
		},

		"older Kubernetes":                           {m: provider.LaunchedNode{KubeletVersion: "v1.36.2"}, want: azure.K8sVersionDrift},
		"the image brought an older kubelet":         {m: provider.LaunchedNode{KubeletVersion: "v1.36.2", Annotations: made("1.36.3")}},
		"the image brought a newer kubelet":          {m: provider.LaunchedNode{KubeletVersion: "v1.36.4"}},
		"made for an older Kubernetes":               {m: provider.LaunchedNode{KubeletVersion: "v1.36.3", Annotations: made("1.35.9")}, want: azure.K8sVersionDrift},
		"a version nobody can read":                  {m: provider.LaunchedNode{KubeletVersion: "latest"}},
		"Kubernetes not known, but another class":    {change: unsettle, m: provider.LaunchedNode{Annotations: hashed("1", v1beta1.HashVersion)}, want: azure.NodeClassDrift},
		"Kubernetes not known":                       {change: unsettle, m: provider.LaunchedNode{KubeletVersion: "v1.30.0"}, open: true},
		"class was changed":                          {m: provider.LaunchedNode{Annotations: hashed("1", v1beta1.HashVersion)}, want: azure.NodeClassDrift},
		"class was not changed":                      {m: provider.LaunchedNode{Annotations: hashed(class("").Hash(), v1beta1.HashVersion)}},
		"hash of another version":                    {m: provider.LaunchedNode{Annotations: hashed("1", "v2")}},
		"class has no hash yet":                      {change: func(c *v1beta1.AKSNodeClass) { c.Annotations = nil }, m: provider.LaunchedNode{Annotations: hashed("1", v1beta1.HashVersion)}},
		"another kubelet identity":                   {m: provider.LaunchedNode{NodeLabels: map[string]string{v1beta1.AKSLabelKubeletIdentityClientID: "old"}}, want: azure.KubeletIdentityDrift},
		"the same kubelet identity":                  {m: provider.LaunchedNode{NodeLabels: map[string]string{v1beta1.AKSLabelKubeletIdentityClientID: "new"}}},
		"a node that does not say whose identity":    {m: provider.LaunchedNode{NodeLabels: map[string]string{"team": "a"}}},
		"class is gone":                              {m: provider.LaunchedNode{Class: "other", ImageID: gen2}, open: true},
		"what is certain comes before what is known": {change: unsettle, m: provider.LaunchedNode{ImageID: image("2204gen2containerd", "202501.01.0"), KubeletVersion: "v1.1.1"}, want: azure.ImageDrift},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1})
			r.options.KubeletIdentityClientID = "new"
			c := settledClass("1.36.3", gen2)
			if tc.change != nil {
				tc.change(c)
			}
			r.class.Store(c)
			if tc.m.Class == "" {
				tc.m.Class = "default"
			}
			drift, err := r.provider(t).Drift(t.Context(), tc.m)
			if drift.Reason != tc.want || (drift.Detail == "") != (tc.want == "") {
				t.Errorf("drift is %+v, want %q", drift, tc.want)
			}
			if notReady := new(provider.NotReadyError); errors.As(err, &notReady) != tc.open {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// keeps records that the node class lost a version of the image.
func keeps(version string) func(*v1beta1.AKSNodeClass) {
	return func(c *v1beta1.AKSNodeClass) {
		c.Annotations[azure.AnnotationImagesKept] = `{"2204gen2containerd":"` + version + `"}`
	}
}

func unsettle(c *v1beta1.AKSNodeClass) {
	c.SetUnknown(v1beta1.ConditionTypeKubernetesVersionReady, "LookupFailed", "")
}

// A node that was just launched has not drifted; it drifts when there is a new image or a newer
// Kubernetes version, or when the class changes. The check sends no request.
//
// Rule DRIFT-5, Rule DRIFT-8.
func TestNodesTellHowTheyWereCreated(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	images := func(version string) []string {
		found, err := r.provider(t).Images(t.Context(), azure.ImageSelection{Spec: &v1beta1.AKSNodeClassSpec{}, Kubernetes: version})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range found {
			ids = append(ids, i.ID)
		}
		return ids
	}
	ids := images("1.36.3")
	first := settledClass("1.36.3", ids...)
	r.class.Store(first)
	in, _ := run(t, p, claim("a", onDemand("Standard_D4ds_v5", "eastus-1")))
	m := provider.LaunchedNode{Claim: "a", Class: "default", ProviderID: in.ProviderID, ImageID: in.ImageID, Annotations: in.Annotations, KubeletVersion: "v1.36.1"}
	drift := func(c *v1beta1.AKSNodeClass) string {
		t.Helper()
		r.class.Store(c)
		got, err := p.Drift(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return got.Reason
	}
	if got := drift(first); got != "" {
		t.Errorf("a new VM has drifted: %s", got)
	}
	if err := r.PublishImage("*", "209901.01.0"); err != nil {
		t.Fatal(err)
	}
	newer := images("1.36.3")
	before := r.Ledger()
	if got := drift(settledClass("1.36.3", newer...)); got != azure.ImageDrift {
		t.Errorf("after a new image: %q", got)
	}
	if got := drift(settledClass("1.37.0", ids...)); got != azure.K8sVersionDrift {
		t.Errorf("after an upgrade: %q", got)
	}
	other := settledClass("1.36.3", ids...)
	other.Spec.OSDiskSizeGB = new(int32)
	*other.Spec.OSDiskSizeGB = 256
	other.Annotations[v1beta1.AnnotationHash] = other.Hash()
	if got := drift(other); got != azure.NodeClassDrift {
		t.Errorf("after a change of the class: %q", got)
	}
	for range 5000 {
		drift(first)
	}
	if after := r.Ledger(); after.Reads != before.Reads || after.Writes != before.Writes {
		t.Errorf("asking about drift made %d requests", after.Reads+after.Writes-before.Reads-before.Writes)
	}
}
