// SPDX-License-Identifier: Apache-2.0

package nodeclass_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// cloud returns the results that a test sets.
type cloud struct {
	images    []v1beta1.NodeImage
	imageErr  error
	lost      bool                 // images are given up though they are held
	selected  azure.ImageSelection // last
	diskErr   error
	pricesErr string
	unlisted  string
	tagKeys   []string
	// withoutDNS is the reason against a DNS cache.
	withoutDNS string
	policy     string
	// trouble is the reason for which the class's VMs are refused, troubleSays its message.
	trouble, troubleSays string
	doubted              []azure.RejectedPrice
	subnetErr            error
	snapshot             *provider.Catalog
	catErr               error
}

func (c *cloud) Images(_ context.Context, selection azure.ImageSelection) ([]v1beta1.NodeImage, error) {
	c.selected = selection
	var out []v1beta1.NodeImage
	for _, i := range c.images {
		out = append(out, v1beta1.NodeImage{ID: i.ID + "@" + selection.Kubernetes})
	}
	if selection.KeepCurrent && len(selection.Current) > 0 && !c.lost {
		out = selection.Current
	}
	return out, c.imageErr
}

func (c *cloud) CheckDiskEncryptionSet(context.Context) error { return c.diskErr }

func (c *cloud) TagKeys(*v1beta1.AKSNodeClass) []string { return c.tagKeys }

func (c *cloud) WithoutLocalDNS(*v1beta1.AKSNodeClass) string { return c.withoutDNS }

func (c *cloud) PolicyDenial(string) string { return c.policy }

func (c *cloud) ClassPause(string) (reason, detail string) { return c.trouble, c.troubleSays }

func (c *cloud) PricesUnlisted() string                { return c.unlisted }
func (c *cloud) PricesProblem() string                 { return c.pricesErr }
func (c *cloud) RejectedPrices() []azure.RejectedPrice { return c.doubted }

func (c *cloud) CheckSubnet(context.Context, string, int64) error { return c.subnetErr }

func (c *cloud) Catalog(context.Context, string) (*provider.Catalog, error) {
	return c.snapshot, c.catErr
}

// server is an API server of some version.
type server struct {
	version string
	err     error
}

func (s *server) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: s.version}, s.err
}

// stage is a class, its surroundings, and the reconciler under test.
type stage struct {
	*testing.T
	client client.Client
	cloud  *cloud
	server *server
	r      *nodeclass.Reconciler
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	groupVersion := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(groupVersion, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta1.AKSNodeClass{}, &karpv1.NodeClaim{}).Build()
	s := &stage{T: t, client: c, server: &server{version: "v1.36.3"}, cloud: &cloud{
		images: []v1beta1.NodeImage{{ID: "image"}},
		snapshot: &provider.Catalog{Types: []offering.InstanceType{{Name: "D4", Offerings: []offering.Offering{
			{Zone: "1", CapacityType: offering.OnDemand, QuotaUses: []offering.QuotaUse{{Quota: "family:D", Amount: 4}}},
		}}}},
	}}
	s.r = &nodeclass.Reconciler{Client: c, Azure: s.cloud, Versions: s.server, Log: logr.Discard()}
	return s
}

func newClass() *v1beta1.AKSNodeClass {
	return &v1beta1.AKSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1}}
}

func (s *stage) reconcile() reconcile.Result {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "default"}})
	if err != nil {
		s.Fatal(err)
	}
	return result
}

func (s *stage) class() *v1beta1.AKSNodeClass {
	s.Helper()
	class := &v1beta1.AKSNodeClass{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		s.Fatal(err)
	}
	return class
}

func (s *stage) wantCondition(conditionType string, status metav1.ConditionStatus, reason, words string) {
	s.Helper()
	c := s.class().Condition(conditionType)
	if c.Status != status || reason != "" && c.Reason != reason || !strings.Contains(c.Message, words) {
		s.Errorf("%s is %s, %s: %q; want %s, %s, saying %q", conditionType, c.Status, c.Reason, c.Message, status, reason, words)
	}
}

func TestAFreshClassBecomesReady(t *testing.T) {
	s := newStage(t, newClass())
	if after := s.reconcile().RequeueAfter; after <= 0 {
		t.Errorf("looked at again after %v", after)
	}
	class := s.class()
	if !class.IsReady() || *class.Status.KubernetesVersion != "1.36.3" || class.Status.Images[0].ID != "image@1.36.3" {
		t.Errorf("status %+v", class.Status)
	}
	if !slices.Contains(class.Finalizers, v1beta1.TerminationFinalizer) || class.Annotations[v1beta1.AnnotationHash] != class.Hash() ||
		class.Annotations[v1beta1.AnnotationHashVersion] != v1beta1.HashVersion {
		t.Errorf("finalizers %v, annotations %v", class.Finalizers, class.Annotations)
	}
	s.wantCondition(v1beta1.ConditionTypeFieldsSupported, metav1.ConditionTrue, "", "")
	s.wantCondition(nodeclass.ConditionTypeCapacityAvailable, metav1.ConditionTrue, "", "")

	before := class.ResourceVersion
	s.reconcile()
	if s.class().ResourceVersion != before {
		t.Error("nothing happened, and the class was written again")
	}
}

func TestKubernetesVersionNeverGoesDown(t *testing.T) {
	s := newStage(t, newClass())
	for _, step := range []struct{ server, want string }{
		{"v1.36.3", "1.36.3"}, {"v1.36.2", "1.36.3"}, {"v1.9.9", "1.36.3"}, {"gibberish", "1.36.3"}, {"v1.37.0+build", "1.37.0"},
	} {
		s.server.version = step.server
		s.reconcile()
		class := s.class()
		if *class.Status.KubernetesVersion != step.want || class.Status.Images[0].ID != "image@"+step.want {
			t.Errorf("after %s: version %s, image %s; want %s", step.server, *class.Status.KubernetesVersion, class.Status.Images[0].ID, step.want)
		}
	}
}

// Rule QUOTA-4.
func TestWhatIsMissingIsAConditionWithAReason(t *testing.T) {
	for _, test := range []struct {
		name      string
		spoil     func(*stage)
		condition string
		status    metav1.ConditionStatus
		reason    string
		words     string
		ready     bool
	}{
		{"no image", func(s *stage) { s.cloud.imageErr = fmt.Errorf("%w: none of a, b", azure.ErrNoImages) },
			v1beta1.ConditionTypeImagesReady, metav1.ConditionFalse, v1beta1.ReasonImagesNotFound, "none of a, b", false},
		{"FIPS", func(s *stage) { s.cloud.imageErr = azure.ErrFIPSNeedsSharedGallery },
			v1beta1.ConditionTypeImagesReady, metav1.ConditionFalse, v1beta1.ReasonSIGRequiredForFIPS, "fipsMode", false},
		{"disk encryption", func(s *stage) {
			s.cloud.diskErr = &azure.DiskEncryptionSetError{Reason: azure.DiskEncryptionSetDenied, Detail: "give its identity the role Reader"}
		},
			v1beta1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, v1beta1.ReasonDiskEncryptionSetRBACMissing, "Reader", false},
		{"disk encryption cannot be looked up", func(s *stage) { s.cloud.diskErr = errors.New("503") },
			v1beta1.ConditionTypeValidationSucceeded, metav1.ConditionUnknown, nodeclass.ReasonLookupFailed, "503", false},
		{"galleries down", func(s *stage) { s.cloud.imageErr = errors.New("503") },
			v1beta1.ConditionTypeImagesReady, metav1.ConditionUnknown, nodeclass.ReasonLookupFailed, "503", false},
		{"no such subnet", func(s *stage) {
			s.cloud.subnetErr = &azure.SubnetError{Reason: azure.SubnetNotFound, Detail: "subnet x does not exist"}
		},
			v1beta1.ConditionTypeSubnetsReady, metav1.ConditionFalse, v1beta1.ReasonSubnetNotFound, "subnet x does not exist", false},
		{"network down", func(s *stage) { s.cloud.subnetErr = errors.New("503") },
			v1beta1.ConditionTypeSubnetsReady, metav1.ConditionUnknown, v1beta1.ReasonSubnetUnknownError, "503", false},
		{"API server down", func(s *stage) { s.server.err = errors.New("no route") },
			v1beta1.ConditionTypeKubernetesVersionReady, metav1.ConditionUnknown, nodeclass.ReasonLookupFailed, "no route", false},
		{"prices not read", func(s *stage) { s.cloud.pricesErr = "reading prices: 503" },
			nodeclass.ConditionTypePricesReady, metav1.ConditionFalse, nodeclass.ReasonPricesNotRead, "503", true},
		{"a region without prices", func(s *stage) { s.cloud.unlisted = "the list does not have the region" },
			nodeclass.ConditionTypePricesReady, metav1.ConditionUnknown, nodeclass.ReasonPricesNotListed, "does not have the region", true},
		{"a price is not believed", func(s *stage) {
			s.cloud.doubted = []azure.RejectedPrice{{Size: "D4", CapacityType: "spot", Listed: 96}, {}, {}, {}}
		},
			nodeclass.ConditionTypePricesReady, metav1.ConditionFalse, nodeclass.ReasonPricesRefused, "4 prices of the list are rejected as implausible: D4 (spot) at 96 USD/h: no price is known; ", true},
		{"no quota", func(s *stage) { s.cloud.snapshot.QuotaLeft = map[string]int64{"family:D": 3} },
			nodeclass.ConditionTypeCapacityAvailable, metav1.ConditionFalse, nodeclass.ReasonQuotaExhausted, "none of 1 offerings", true},
		{"no quota, by its own condition", func(s *stage) { s.cloud.snapshot.QuotaLeft = map[string]int64{"family:D": 3} },
			kube.ConditionQuotaAvailable, metav1.ConditionFalse, nodeclass.ReasonQuotaExhausted, "quota family:D", true},
		{"no addresses", func(s *stage) {
			s.cloud.snapshot.Types[0].Offerings[0].QuotaUses = []offering.QuotaUse{{Quota: "subnet:net/nodes", Amount: 30}}
			s.cloud.snapshot.QuotaLeft = map[string]int64{"subnet:net/nodes": 29}
		},
			kube.ConditionQuotaAvailable, metav1.ConditionFalse, nodeclass.ReasonAddressesExhausted, "enlarge the subnet", true},
		{"quota for an hour", func(s *stage) {
			s.cloud.snapshot.QuotaLeft = map[string]int64{"family:D": 40}
			s.cloud.snapshot.QuotaForecast = map[string]provider.Exhaustion{"family:D": {Left: 40, In: 65 * time.Minute}}
		},
			kube.ConditionQuotaAvailable, metav1.ConditionTrue, nodeclass.ReasonQuotaRunsOut, "quota family:D has 40 left, which last 1h5m", true},
		{"quota known in part", func(s *stage) {
			s.cloud.snapshot.QuotaLeft = map[string]int64{"regional": 40}
		},
			kube.ConditionQuotaAvailable, metav1.ConditionTrue, nodeclass.ReasonQuotaInPart, "nothing is known of quota family:D:", true},
		{"quota not known", func(s *stage) { s.cloud.snapshot.Problem = "reading quota: 403" },
			kube.ConditionQuotaAvailable, metav1.ConditionUnknown, nodeclass.ReasonQuotaNotKnown, "reading quota: 403", true},
		{"no stock", func(s *stage) { s.cloud.snapshot.Types[0].Offerings[0].Unavailable = "SkuNotAvailable" },
			nodeclass.ConditionTypeCapacityAvailable, metav1.ConditionFalse, nodeclass.ReasonNothingAvailable, "SkuNotAvailable", true},
		{"no types", func(s *stage) { s.cloud.snapshot.Types = nil },
			nodeclass.ConditionTypeCapacityAvailable, metav1.ConditionFalse, nodeclass.ReasonNoTypes, "no VM size", true},
		{"no catalog", func(s *stage) { s.cloud.catErr = errors.New("503") },
			nodeclass.ConditionTypeCapacityAvailable, metav1.ConditionUnknown, nodeclass.ReasonLookupFailed, "503", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, newClass())
			test.spoil(s)
			s.reconcile()
			s.wantCondition(test.condition, test.status, test.reason, test.words)
			if s.class().IsReady() != test.ready {
				t.Errorf("ready is %v", !test.ready)
			}
		})
	}
}

func TestAHiccupDoesNotUnmakeAClass(t *testing.T) {
	s := newStage(t, newClass())
	s.reconcile()
	s.cloud.imageErr, s.cloud.subnetErr, s.server.err = errors.New("gallery 503"), errors.New("network 503"), errors.New("no route")
	s.reconcile()
	if class := s.class(); !class.IsReady() || class.Status.Images[0].ID != "image@1.36.3" {
		t.Errorf("status %+v", class.Status)
	}
	s.wantCondition(v1beta1.ConditionTypeImagesReady, metav1.ConditionTrue, nodeclass.ReasonCannotBeRefreshed, "gallery 503")
	s.wantCondition(v1beta1.ConditionTypeSubnetsReady, metav1.ConditionTrue, nodeclass.ReasonCannotBeRefreshed, "network 503")
	s.wantCondition(v1beta1.ConditionTypeKubernetesVersionReady, metav1.ConditionTrue, nodeclass.ReasonCannotBeRefreshed, "no route")

	// A result for another spec does not apply to this one.
	class := s.class()
	class.Generation = 2
	if err := s.client.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	s.wantCondition(v1beta1.ConditionTypeImagesReady, metav1.ConditionUnknown, nodeclass.ReasonLookupFailed, "gallery 503")

	s.cloud.imageErr, s.cloud.subnetErr, s.server.err = nil, nil, nil
	s.reconcile()
	if !s.class().IsReady() {
		t.Error("not ready after all came back")
	}
}

func TestFieldsWithoutEffectAreTold(t *testing.T) {
	class := newClass()
	class.Spec.LocalDNS = &v1beta1.LocalDNS{Mode: v1beta1.LocalDNSModePreferred}
	s := newStage(t, class)
	s.cloud.withoutDNS = "it is Sunday"
	s.reconcile()
	s.wantCondition(v1beta1.ConditionTypeFieldsSupported, metav1.ConditionFalse, v1beta1.ReasonFieldsNotHonoured, "localDNS.mode Preferred: nodes run no DNS cache, as it is Sunday")
	if !s.class().IsReady() {
		t.Error("a field without effect blocks the class")
	}
}

// The cache is on where it is required, and where it is preferred and supported;
// there it is then kept on.
//
// Rule BOOTSTRAP-8.
func TestLocalDNSIsOnWhereItIsRequired(t *testing.T) {
	on, off := v1beta1.LocalDNSStateEnabled, v1beta1.LocalDNSStateDisabled
	required, preferred := &v1beta1.LocalDNS{Mode: v1beta1.LocalDNSModeRequired}, &v1beta1.LocalDNS{Mode: v1beta1.LocalDNSModePreferred}
	other := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "node-local-dns"}}
	for name, test := range map[string]struct {
		dns     *v1beta1.LocalDNS
		was     *v1beta1.LocalDNSState
		against string
		objects []client.Object
		want    bool
		says    string
	}{
		"no cache":                 {dns: nil, was: &on},
		"disabled":                 {dns: &v1beta1.LocalDNS{Mode: v1beta1.LocalDNSModeDisabled}, was: &on},
		"required":                 {dns: required, against: "it is old", objects: []client.Object{other}, want: true},
		"preferred":                {dns: preferred, was: &off, want: true},
		"preferred and too old":    {dns: preferred, against: "it is old", says: "as it is old"},
		"preferred beside another": {dns: preferred, objects: []client.Object{other}, says: "DaemonSet kube-system/node-local-dns"},
		"preferred and on":         {dns: preferred, was: &on, against: "it is old", objects: []client.Object{other}, want: true},
	} {
		class := newClass()
		class.Spec.LocalDNS, class.Status.LocalDNSState = test.dns, test.was
		s := newStage(t, append(test.objects, class)...)
		s.cloud.withoutDNS = test.against
		s.reconcile()
		if got := s.class(); got.LocalDNSEnabled() != test.want || !got.IsReady() {
			t.Errorf("%s: the cache is on: %v; the class is ready: %v", name, got.LocalDNSEnabled(), got.IsReady())
		}
		honoured := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[test.says == ""]
		s.wantCondition(v1beta1.ConditionTypeFieldsSupported, honoured, "", test.says)
	}
}

func claimOf(class, name string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: v1beta1.Group, Kind: v1beta1.Kind, Name: class}
	return c
}

func TestAClassOutlivesItsClaims(t *testing.T) {
	class, claim := newClass(), claimOf("default", "a")
	s := newStage(t, class, claim, claimOf("other", "b"))
	s.reconcile()
	if err := s.client.Delete(t.Context(), s.class()); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if !slices.Contains(s.class().Finalizers, v1beta1.TerminationFinalizer) {
		t.Fatal("the class was let go while a claim refers to it")
	}
	if err := s.client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "default"}, &v1beta1.AKSNodeClass{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the class is still there: %v", err)
	}
	s.reconcile() // and a late wake-up is nothing
}

func TestAnotherHashFormulaDriftsNobody(t *testing.T) {
	claim, drifted := claimOf("default", "a"), claimOf("default", "b")
	for _, c := range []*karpv1.NodeClaim{claim, drifted} {
		c.Annotations = map[string]string{v1beta1.AnnotationHash: "old", v1beta1.AnnotationHashVersion: "v2"}
	}
	drifted.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
	s := newStage(t, newClass(), claim, drifted)
	s.reconcile()
	for name, want := range map[string]string{"a": s.class().Hash(), "b": "old"} {
		got := &karpv1.NodeClaim{}
		if err := s.client.Get(t.Context(), client.ObjectKey{Name: name}, got); err != nil {
			t.Fatal(err)
		}
		if got.Annotations[v1beta1.AnnotationHash] != want || got.Annotations[v1beta1.AnnotationHashVersion] != v1beta1.HashVersion {
			t.Errorf("claim %s: %v", name, got.Annotations)
		}
	}
}

// The tags of a class are recorded on it before it is ready for VMs.
//
// Rule SETTING-1.
func TestTagKeysAreRemembered(t *testing.T) {
	s := newStage(t, newClass())
	s.reconcile()
	if keys, noted := s.class().Annotations[azure.AnnotationTagKeys]; noted {
		t.Errorf("a class without tags remembers %s", keys)
	}
	s.cloud.tagKeys = []string{"cost", "team"}
	s.reconcile()
	if got := s.class().Annotations[azure.AnnotationTagKeys]; got != `["cost","team"]` {
		t.Errorf("remembered: %s", got)
	}
}

// A policy's denial is a condition with a next step, and the class remains ready for
// what the policy allows.
//
// Rule REFUSAL-9.
func TestPolicyIsACondition(t *testing.T) {
	s := newStage(t, newClass())
	s.reconcile()
	s.wantCondition(nodeclass.ConditionTypeAllowedByPolicy, metav1.ConditionTrue, "AllowedByPolicy", "")
	s.cloud.policy = "Standard_D4s_v5 in eastus-1: RequestDisallowedByPolicy: exempt the node resource group"
	s.reconcile()
	s.wantCondition(nodeclass.ConditionTypeAllowedByPolicy, metav1.ConditionFalse, "RequestDisallowedByPolicy", "exempt the node resource group")
	s.wantCondition(v1beta1.ConditionTypeReady, metav1.ConditionTrue, "Ready", "")
}

// Rule REFUSAL-6, Rule REFUSAL-7.
func TestRefusedLaunchesAreACondition(t *testing.T) {
	s := newStage(t, newClass())
	s.reconcile()
	s.wantCondition(v1beta1.ConditionTypeReady, metav1.ConditionTrue, "Ready", "")
	s.cloud.trouble, s.cloud.troubleSays = azure.ClassDenied, "assign the role"
	s.reconcile()
	s.wantCondition(v1beta1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, azure.ClassDenied, "assign the role")
	s.wantCondition(v1beta1.ConditionTypeReady, metav1.ConditionFalse, "", "")
	s.cloud.trouble = ""
	s.reconcile()
	s.wantCondition(v1beta1.ConditionTypeReady, metav1.ConditionTrue, "Ready", "")
}
