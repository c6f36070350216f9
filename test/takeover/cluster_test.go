// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/kube"
)

// cluster is the state that Karpenter's provider left: an API with its objects, and an Azure
// with its VMs.
type cluster struct {
	t     *testing.T
	azure *azureemulator.Server
	api   client.Client
	// writes are the requests to the API since karve was started, changes those to Azure.
	writes  []write
	changes []string
}

// write is one to the API, events left out.
type write struct{ verb, kind, name, body string }

func (w write) String() string { return w.verb + " " + w.kind + " " + w.name + " " + w.body }

// inherit makes the cluster of testdata, with replacements in the Kubernetes objects.
func inherit(t *testing.T, replace ...string) *cluster {
	t.Helper()
	// The emulated Azure publishes its images at the end of 2025, the cluster is younger.
	time.Sleep(time.Until(time.Date(2026, time.November, 1, 8, 0, 0, 0, time.UTC)))
	azure, err := azureemulator.New(t.Context(), azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1, Sizes: []string{"Standard_D4s_v5", "Standard_D8s_v5"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, azure: azure}
	t.Cleanup(func() {
		if err := azure.CheckInvariants(); err != nil {
			t.Errorf("the cloud is inconsistent: %v", err)
		}
		azure.Close()
	})
	c.createVMs()
	time.Sleep(10 * time.Minute) // VMs start
	c.api = interceptor.NewClient(objects(t, c.fill(golden(t, "cluster.yaml"), replace...)), c.recording())
	return c
}

// createVMs creates the VMs as Karpenter's provider does: an interface, then the VM.
func (c *cluster) createVMs() {
	c.t.Helper()
	var bodies []struct {
		Path string
		Body json.RawMessage
	}
	if err := json.Unmarshal([]byte(c.fill(golden(c.t, "azure.json"))), &bodies); err != nil {
		c.t.Fatal(err)
	}
	for _, b := range bodies {
		if answer := c.ask(http.MethodPut, b.Path, b.Body); answer == "" {
			c.t.Fatalf("PUT %s failed", b.Path)
		}
	}
}

// fill inserts the names of the emulated Azure, and other replacements before.
func (c *cluster) fill(text string, replace ...string) string {
	text = strings.NewReplacer(replace...).Replace(text)
	return strings.NewReplacer("SUBSCRIPTION", c.azure.SubscriptionID(), "SUBNET", c.azure.SubnetID(), "GROUP", c.group()).Replace(text)
}

func (c *cluster) group() string {
	return "/subscriptions/" + c.azure.SubscriptionID() + "/resourceGroups/" + c.azure.NodeResourceGroup()
}

// ask sends a request about something in the node resource group and returns the
// response; empty when it was refused.
func (c *cluster) ask(method, path string, body []byte) string {
	c.t.Helper()
	version := "?api-version=2024-07-01"
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.azure.URL()+c.group()+path+version, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	credential, err := c.azure.Credential()
	if err != nil {
		c.t.Fatal(err)
	}
	token, err := credential.GetToken(c.t.Context(), policy.TokenRequestOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.azure.InProcess().Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode >= 300 {
		c.t.Logf("%s %s: %s: %s", method, path, resp.Status, answer)
		return ""
	}
	return string(answer)
}

func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// objects is an API that holds the objects of a manifest.
func objects(t *testing.T, manifest string) client.WithWatch {
	t.Helper()
	scheme := kinds(t)
	decode := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []client.Object
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		o, _, err := decode.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("reading the manifest: %v:\n%s", err, document)
		}
		all = append(all, o.(client.Object))
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, scope(kind))
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(all...).
		WithStatusSubresource(&karpv1.NodeClaim{}, &karpv1.NodePool{}, &v1beta1.AKSNodeClass{})
	for _, i := range kube.Indexes() {
		b = b.WithIndex(i.Of, i.Field, i.Extract)
	}
	return b.Build()
}

func kinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	metav1.AddToGroupVersion(scheme, karpenter)
	scheme.AddKnownTypes(karpenter, &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	return scheme
}

func scope(kind schema.GroupVersionKind) meta.RESTScope {
	switch kind.Kind {
	case "Node", "NodeClaim", "NodePool", "AKSNodeClass", "Namespace", "VolumeAttachment", "PersistentVolume":
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

// recording notes every write before it is done.
func (c *cluster) recording() interceptor.Funcs {
	note := func(verb string, o client.Object, body string) {
		if _, event := o.(*corev1.Event); !event {
			c.writes = append(c.writes, write{verb, strings.TrimPrefix(fmt.Sprintf("%T", o), "*"), o.GetName(), body})
		}
	}
	patch := func(verb string, o client.Object, p client.Patch) {
		body, err := p.Data(o)
		if err != nil {
			c.t.Error(err)
		}
		note(verb, o, string(body))
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o, "")
			return api.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o, "")
			return api.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			note("delete all of", o, "")
			return api.DeleteAllOf(ctx, o, opts...)
		},
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			note("update", o, "")
			return api.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			patch("patch", o, p)
			return api.Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(ctx context.Context, api client.Client, sub string, o, value client.Object, opts ...client.SubResourceCreateOption) error {
			note("create "+sub, o, "")
			return api.SubResource(sub).Create(ctx, o, value, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, api client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			note("update "+sub, o, "")
			return api.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, api client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			patch("patch "+sub, o, p)
			return api.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// state lists the API's objects of a kind, one a line.
func (c *cluster) state(kind client.ObjectList) []string {
	c.t.Helper()
	if err := c.api.List(c.t.Context(), kind); err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	if err := meta.EachListItem(kind, func(o runtime.Object) error {
		line, err := json.Marshal(o)
		lines = append(lines, string(line))
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	return lines
}
