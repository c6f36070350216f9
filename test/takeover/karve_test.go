// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/controller/drift"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/expiration"
	"github.com/karve-dev/karve/controller/gc"
	"github.com/karve-dev/karve/controller/inplace"
	"github.com/karve-dev/karve/controller/interruption"
	"github.com/karve-dev/karve/controller/lifecycle"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/controller/nodepool"
	"github.com/karve-dev/karve/controller/observe"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/repair"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider/azure"
)

// karve has all its controllers that concern instances, wired as the manager
// wires them and called one after the other.
type karve struct {
	*cluster
	cloud  *azure.Provider
	mirror *state.Mirror
	seen   map[string]string // resource versions that the mirror has

	classes, pools, claims, nodes []reconcile.Reconciler
	provisioner                   *provision.Provisioner
	disruption                    *disruption.Controller
	collector                     *gc.Collector
}

// start starts karve over the cluster, configured as Karpenter's provider was.
func (c *cluster) start() *karve {
	c.t.Helper()
	cloud := c.provider()
	k := &karve{cluster: c, cloud: cloud, mirror: state.NewMirror(func(string) {}), seen: map[string]string{}}
	log, set := logr.Discard(), metrics.New(prometheus.NewRegistry())
	kind := v1beta1.GroupVersion().WithKind(v1beta1.Kind)
	class := kind.GroupKind()
	k.mirror.NodeClassKind = class
	recorder := events.New(c.api, log, set.EventsDropped.Inc)
	keeper := catalog.New(cloud, k.mirror, set)
	ledger := &registrationhealth.Ledger{}
	evictor := termination.NewEvictor(c.api, recorder, set, log)

	k.classes = []reconcile.Reconciler{&nodeclass.Reconciler{Client: c.api, Azure: cloud, Versions: kubernetes("v1.36.3"), Log: log, Events: recorder}}
	k.pools = []reconcile.Reconciler{&nodepool.Reconciler{Client: c.api, Mirror: k.mirror, Metrics: set, Log: log, NodeClassGVK: kind, Health: ledger}}
	k.claims = []reconcile.Reconciler{
		&lifecycle.Reconciler{Client: c.api, Live: c.api, Mirror: k.mirror, Catalog: keeper, Provider: cloud, Events: recorder, Metrics: set, Log: log, NodeClassGVK: kind, Health: ledger,
			Terminator: &termination.ClaimReconciler{Client: c.api, Provider: cloud, Events: recorder, Metrics: set, Log: log, NodeClassKind: class}},
		&interruption.Reconciler{Client: c.api, Provider: cloud, SpotObserver: cloud, Events: recorder, Metrics: set, Log: log, NodeClassKind: class},
		&drift.Reconciler{Client: c.api, Catalog: keeper, Drifter: cloud, Events: recorder, Metrics: set, Log: log, NodeClassGVK: kind},
		&expiration.Reconciler{Client: c.api, Metrics: set, Log: log, NodeClassKind: class},
		&inplace.Reconciler{Client: c.api, Updater: cloud, Events: recorder, Metrics: set, Log: log, NodeClassGVK: kind},
		&repair.Reconciler{Client: c.api, Policies: cloud.RepairPolicies(), Events: recorder, Metrics: set, Log: log, NodeClassKind: class},
	}
	k.nodes = []reconcile.Reconciler{
		&termination.NodeReconciler{Client: c.api, Live: c.api, Provider: cloud, Evictor: evictor, Events: recorder, Metrics: set, Log: log},
		&observe.Reconciler{Client: c.api, Observer: cloud, NodeClassKind: class},
	}
	k.provisioner = &provision.Provisioner{Client: c.api, Live: c.api, Mirror: k.mirror, Catalog: keeper, Batches: provision.NewBatcher(0, 0), Events: recorder, Metrics: set, Log: log}
	k.disruption = disruption.New(disruption.Options{Client: c.api, Live: c.api, Mirror: k.mirror, Catalog: keeper, Events: recorder, Metrics: set, Log: log, Settings: disrupt.Defaults()})
	k.collector = &gc.Collector{Client: c.api, Live: c.api, Provider: cloud, Events: recorder, Metrics: set, Log: log, NodeClassKind: class, LeftoverCollector: cloud, UnreadableLister: cloud, Recognizer: cloud}
	k.feed()
	k.mirror.AssumeSynced()
	return k
}

func (c *cluster) provider() *azure.Provider {
	c.t.Helper()
	credential, err := c.azure.Credential()
	if err != nil {
		c.t.Fatal(err)
	}
	options := *c.azure.ClientOptions()
	options.Transport = watched{c}
	cloud, err := azure.New(c.t.Context(), azure.Options{
		Credential: credential, ClientOptions: &options, SubscriptionID: c.azure.SubscriptionID(), Location: c.azure.Location(), ClusterName: "karve",
		ClusterEndpoint: "https://karve.example:443", CABundle: []byte(azureemulator.IdleAuthority), NodeResourceGroup: c.azure.NodeResourceGroup(), VNetSubnetID: c.azure.SubnetID(),
		SSHPublicKey: "ssh-ed25519 AAAA test", PricesURL: c.azure.URL() + "/api/retail/prices",
		NodeIdentities:          []string{c.group() + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/kubelet"},
		KubeletIdentityClientID: "2d3f1c58-6f0b-4f3f-9d0a-0d3c0a5e00aa",
		BootstrapToken:          func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:                 nodeclass.Classes(c.api),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return cloud
}

// watched is the connection to Azure; every request that may change anything there is recorded.
type watched struct{ *cluster }

func (w watched) Do(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		w.changes = append(w.changes, r.Method+" "+r.URL.Path)
	}
	return w.azure.InProcess().Do(r)
}

// kubernetes is the version of an API server.
type kubernetes string

func (v kubernetes) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: string(v)}, nil
}

// run lets karve work for a while. Rounds are far enough apart for all that is read
// anew now and then to be read anew.
func (k *karve) run(d time.Duration) {
	k.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(30 * time.Second) {
		k.round()
	}
}

func (k *karve) round() {
	k.t.Helper()
	ctx := k.t.Context()
	each(k, k.classes, &v1beta1.AKSNodeClassList{}, func(l *v1beta1.AKSNodeClassList) []v1beta1.AKSNodeClass { return l.Items })
	k.feed()
	each(k, k.pools, &karpv1.NodePoolList{}, func(l *karpv1.NodePoolList) []karpv1.NodePool { return l.Items })
	k.feed()
	k.try("provisioning", k.provisioner.Provision(ctx))
	each(k, k.claims, &karpv1.NodeClaimList{}, func(l *karpv1.NodeClaimList) []karpv1.NodeClaim { return l.Items })
	each(k, k.nodes, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	k.feed()
	k.try("disruption", k.disruption.Disrupt(ctx))
	k.try("garbage collection", k.collector.Collect(ctx))
}

func (k *karve) try(what string, err error) {
	k.t.Helper()
	if err != nil {
		k.t.Errorf("%s: %v", what, err)
	}
}

// each calls reconcilers for all objects of a kind.
func each[L client.ObjectList, T any, P interface {
	*T
	client.Object
}](k *karve, reconcilers []reconcile.Reconciler, list L, items func(L) []T) {
	k.t.Helper()
	if err := k.api.List(k.t.Context(), list); err != nil {
		k.t.Fatal(err)
	}
	all := items(list)
	for i := range all {
		for _, r := range reconcilers {
			_, err := r.Reconcile(k.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&all[i]))})
			k.try("reconciling "+P(&all[i]).GetName(), err)
		}
	}
}

// feed passes changes to the mirror, as watches would.
func (k *karve) feed() {
	k.t.Helper()
	tell(k, &karpv1.NodePoolList{}, func(l *karpv1.NodePoolList) []karpv1.NodePool { return l.Items }, k.mirror.SetPool)
	tell(k, &karpv1.NodeClaimList{}, func(l *karpv1.NodeClaimList) []karpv1.NodeClaim { return l.Items }, k.mirror.SetClaim)
	tell(k, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items }, k.mirror.SetNode)
	tell(k, &corev1.PodList{}, func(l *corev1.PodList) []corev1.Pod { return l.Items }, func(p *corev1.Pod) { k.mirror.SetPod(p, !k.mirror.Synced()) })
}

func tell[L client.ObjectList, T any, P interface {
	*T
	client.Object
}](k *karve, list L, items func(L) []T, set func(P)) {
	k.t.Helper()
	if err := k.api.List(k.t.Context(), list); err != nil {
		k.t.Fatal(err)
	}
	all := items(list)
	for i := range all {
		o := P(&all[i])
		if key := string(o.GetUID()); k.seen[key] != o.GetResourceVersion() {
			k.seen[key] = o.GetResourceVersion()
			set(o)
		}
	}
}
