// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/controller/manager"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/test/kubeapi"
)

// process is one karve: everything that the command runs in a cluster, wired as it wires it.
type process struct {
	name string
	api  *kubeapi.Transport
	arm  *armTransport
	// hindrance is what is wrong with it.
	hindrance hindrance
	stop      context.CancelFunc
	done      chan struct{}
	err       error // once it is done

	features manager.Features
}

// classesOf reads node classes through the manager, which is made after the provider.
type classesOf struct{ client.Reader }

// startKarve starts a process. It runs until it is killed, loses its lease, or the world ends.
func (w *world) startKarve(name string, features manager.Features) *process {
	ctx, stop := context.WithCancel(w.ctx)
	p := &process{name: name, features: features, api: w.api.Transport(name), stop: stop, done: make(chan struct{})}
	p.hindrance.kill = p.kill
	p.arm = &armTransport{next: w.azure.InProcess(), seen: w.auditor.request, hindrance: &p.hindrance}
	w.running.Go(func() {
		defer close(p.done)
		p.err = w.runKarve(ctx, p)
	})
	return p
}

// kill ends the process at once: what it has asked for goes on, and it hears of nothing more.
func (p *process) kill() {
	p.api.Kill()
	p.arm.kill()
	p.stop()
}

func (w *world) runKarve(ctx context.Context, p *process) error {
	log := w.options.Log.WithName(p.name)
	cluster := w.api.Config(p.api)
	cluster.Transport = &hinderedTransport{next: p.api, hindrance: &p.hindrance}
	classes, fence := &classesOf{}, &leader.Fence{}
	cloud, err := w.provider(ctx, p, classes, fence, log)
	if err != nil {
		return fmt.Errorf("configuring the provider: %w", err)
	}
	versions, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return err
	}
	recovered := manager.ReportPanics(log)
	add := func(m crmanager.Manager) error {
		window := nodeclass.MaintenanceWindow{Reader: m.GetAPIReader(), Namespace: metav1.NamespaceSystem}
		r := &nodeclass.Reconciler{Client: m.GetClient(), Azure: cloud, Versions: versions, Window: window, Log: log.WithName(nodeclass.Name), Panics: recovered}
		return errors.Join(r.Register(m), m.Add(crmanager.RunnableFunc(cloud.Run)))
	}
	m, err := manager.New(cluster, manager.Options{
		Provider: cloud, NodeClass: v1beta1.GroupVersion().WithKind(v1beta1.Kind), Controllers: []func(crmanager.Manager) error{add},
		Log: log, MetricsPort: -1, HealthPort: -1, Fence: fence, Panics: recovered, Scheme: newScheme(), Registry: prometheus.NewRegistry(),
		Disruption: disrupt.Defaults(), Validation: 15 * time.Second, CollectGrace: 30 * time.Second,
		Features: p.features, SurgeNamespaces: accessOptions.SurgeNamespaces,
	})
	if err != nil {
		return fmt.Errorf("wiring the controllers: %w", err)
	}
	classes.Reader = m.Client()
	return m.Run(ctx)
}

// provider is the provider for Azure, at the emulator.
func (w *world) provider(ctx context.Context, p *process, classes client.Reader, fence *leader.Fence, log logr.Logger) (*azure.Provider, error) {
	credential, err := w.azure.Credential()
	if err != nil {
		return nil, err
	}
	options := *w.azure.ClientOptions()
	options.Transport = p.arm
	return azure.New(ctx, azure.Options{
		Credential: credential, ClientOptions: &options, SubscriptionID: w.azure.SubscriptionID(), Location: w.azure.Location(), ClusterName: clusterName,
		ClusterEndpoint: "https://karve.example:443", CABundle: []byte(authority()), NodeResourceGroup: w.azure.NodeResourceGroup(), VNetSubnetID: w.azure.SubnetID(),
		SSHPublicKey: "ssh-ed25519 AAAA simulation", PricesURL: w.azure.URL() + "/api/retail/prices",
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:        nodeclass.Classes(classes), MayWrite: fence.Check, Log: slog.New(logr.ToSlogHandler(log.WithName("azure"))),
	})
}

const clusterName = "karve"

// accessOptions are those of the roles that all processes have.
var accessOptions = access.Options{Namespace: metav1.NamespaceSystem, SurgeNamespaces: []string{metav1.NamespaceDefault}}
