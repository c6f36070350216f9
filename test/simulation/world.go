// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/api/crds"
	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/test/kubeapi"
	"github.com/karve-dev/karve/test/scarcity"
)

// prepare changes what all worlds of a process share, before the first one reads it: the scheme
// knows AKSNodeClass, and client-go does not pause after errors by a clock that is none of the world's.
var prepare = sync.OnceValue(func() error {
	utilruntime.ErrorHandlers = nil
	return v1beta1.AddToScheme(clientgoscheme.Scheme)
})

// newScheme is a copy of client-go's scheme with the types that others added to it: controller-runtime adds
// to the scheme of a manager that it makes, while other processes of the world read theirs.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	for gvk, of := range clientgoscheme.Scheme.AllKnownTypes() {
		if s.Recognizes(gvk) || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		s.AddKnownTypeWithName(gvk, reflect.New(of).Interface().(runtime.Object))
		metav1.AddToGroupVersion(s, gvk.GroupVersion())
	}
	return s
}

// authority is made once: it takes time that no clock shows.
var authority = sync.OnceValue(func() string {
	pem, err := scarcity.Authority()
	if err != nil {
		panic(err)
	}
	return string(pem)
})

// world is a cluster in Azure, and the karve that runs in it.
type world struct {
	t       testing.TB
	options Options
	ctx     context.Context
	random  *rand.Rand

	api     *kubeapi.Server
	azure   *azureemulator.Server
	objects *objects
	auditor *auditor
	access  *permissions
	client  client.Client // of a user
	running sync.WaitGroup
	// kubelets and controllers are what may be ill in the cluster.
	kubelets    *kubelets
	controllers *kubernetesControllers
	end         context.CancelFunc

	mu       sync.Mutex
	problems []string
	begun    time.Time
	seen     struct{ claims, nodes int }
	// expectKarve: nothing goes wrong any more, so that karve has no reason to end.
	expectKarve bool
}

// newWorld makes a world without karve and without workloads.
func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, options: o, random: rand.New(rand.NewPCG(o.Seed, 600)), objects: newObjects(), auditor: newAuditor(), begun: time.Now()}
	if w.options.Log.GetSink() == nil {
		w.options.Log = logr.Discard()
	}
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.access = newPermissions(access.Objects(accessOptions), w.problem)
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	w.api, err = kubeapi.New(kubeapi.Options{Seed: o.Seed, CRDs: definitions, OnWrite: w.observe, OnRequest: w.access.request})
	if err != nil {
		t.Fatal(err)
	}
	w.kubelets = newKubelets(w.api.Transport("kubelet"))
	guest := node.NewOS(node.Options{API: w.kubelets, Silence: silence})
	w.azure, err = azureemulator.New(w.ctx, azureemulator.Options{
		SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: o.Seed, SubnetPrefix: "10.0.0.0/16", ClusterName: clusterName, Guest: guest,
		Sizes: []string{"Standard_D2s_v5", "Standard_D4s_v5", "Standard_D8s_v5", "Standard_D2as_v5", "Standard_D4as_v5", "Standard_E4s_v5", "Standard_F4s_v2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.client = w.clientOf("user")
	w.kubelets.user = w.client
	w.kubelets.vms = "azure:///subscriptions/" + w.azure.SubscriptionID() + "/resourceGroups/" + strings.ToLower(w.azure.NodeResourceGroup()) + "/providers/Microsoft.Compute/virtualMachines/"
	w.startKubernetes()
	return w
}

// clientOf is a client that the name stands for.
func (w *world) clientOf(name string) client.Client {
	c, err := client.New(w.configOf(name), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) configOf(name string) *rest.Config {
	return w.api.Config(w.api.Transport(name))
}

// startKubernetes starts what a cluster does without karve, Azure's cloud controller included.
func (w *world) startKubernetes() {
	clients, err := kubernetes.NewForConfig(w.configOf("cloud-controller"))
	if err != nil {
		w.t.Fatal(err)
	}
	controller, err := node.NewCloudController(node.CloudOptions{Client: clients, VMs: node.VMsOf(w.azure)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.running.Go(func() { _ = controller.Run(w.ctx) }) // ends with the context
	w.controllers = &kubernetesControllers{
		client: w.clientOf("kubernetes"), objects: w.objects, azure: w.azure, random: rand.New(rand.NewPCG(w.options.Seed, 601)), fail: w.problem,
		now: w.api.Now, kubelets: w.kubelets, ends: map[types.UID]ending{}, starts: map[types.UID]time.Time{}, readyAt: map[types.UID]time.Time{}, lastSeen: map[types.UID]time.Time{},
	}
	w.running.Go(func() { w.controllers.run(w.ctx) })
	w.running.Go(func() { w.audit() })
}

// observe follows every change of the cluster.
func (w *world) observe(at time.Time, process string, was, is *unstructured.Unstructured) {
	before, after := w.objects.follow(was, is)
	w.auditor.object(at, before, after)
	w.access.write(process, was, is)
	if was == nil {
		switch is.GetKind() {
		case "NodeClaim":
			w.seen.claims++
		case "Node":
			w.seen.nodes++
		}
	}
	if w.options.Trace != nil {
		w.trace(at, process, was, is)
	}
}

func (w *world) trace(at time.Time, process string, was, is *unstructured.Unstructured) {
	u, verb := is, "changed"
	switch {
	case was == nil:
		verb = "created"
	case is == nil:
		u, verb = was, "deleted"
	}
	if u.GetKind() == "Lease" {
		return
	}
	more := ""
	if u.GetKind() == "Event" {
		reason, _, _ := unstructured.NestedString(u.Object, "reason")
		about, _, _ := unstructured.NestedString(u.Object, "involvedObject", "name")
		message, _, _ := unstructured.NestedString(u.Object, "message")
		more = about + " " + reason + ": " + message
	}
	w.options.Trace(fmt.Sprintf("%8s %-16s %s %s %s %s", at.Sub(w.begun).Truncate(time.Millisecond), process, verb, u.GetKind(), u.GetName(), more))
}

// say writes a line of the trace.
func (w *world) say(format string, args ...any) {
	if w.options.Trace != nil {
		w.options.Trace(fmt.Sprintf("%8s == ", time.Since(w.begun).Truncate(time.Millisecond)) + fmt.Sprintf(format, args...))
	}
}

// problem records what is wrong.
func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("after %v: ", time.Since(w.begun).Truncate(time.Millisecond))+fmt.Sprintf(format, args...))
}

// close ends everything.
func (w *world) close() {
	w.end()
	w.running.Wait()
	time.Sleep(longestSilence) // of kubelets of VMs that have just ended
	if err := w.azure.Close(); err != nil {
		w.t.Errorf("closing the emulator: %v", err)
	}
}

// longestSilence is how long the operating system of a VM that has ended may go on.
const longestSilence = 5 * time.Minute
