// SPDX-License-Identifier: Apache-2.0

// Package manager wires karve's controllers into one process: one cache, one
// mirror, one leader.
//
// It reads no flags and no environment (cmd does) and depends on no cloud:
// the provider and the kind of its node class are options. An error names each required option
// that is missing; all others have a default.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/controller/apilimit"
	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/controller/drift"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/expiration"
	"github.com/karve-dev/karve/controller/gc"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/inplace"
	"github.com/karve-dev/karve/controller/interruption"
	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/controller/lifecycle"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/nodepool"
	"github.com/karve-dev/karve/controller/observe"
	"github.com/karve-dev/karve/controller/overlay"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/repair"
	"github.com/karve-dev/karve/controller/static"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider"
)

// Options configures a manager. Names of flags are in parentheses.
type Options struct {
	// Provider launches and terminates instances. Required.
	Provider provider.Provider
	// NodeClass is the kind of node class the provider understands, in the version to
	// read, for instance karpenter.azure.com/v1beta1 AKSNodeClass. Required.
	NodeClass schema.GroupVersionKind
	// Controllers adds the provider's own controllers and background work.
	Controllers []func(crmanager.Manager) error
	Log         logr.Logger
	// Version is shown in karpenter_build_info.
	Version string

	// BatchIdle and BatchMax bound a batch of pending pods (--batch-idle-duration,
	// --batch-max-duration). Zero means 1 s and 10 s.
	BatchIdle, BatchMax time.Duration

	// MetricsPort and HealthPort (--metrics-port, --health-probe-port); zero means
	// 8080 and 8081, negative none.
	MetricsPort, HealthPort int
	// Metrics is how the metrics port is served; the zero value: over HTTP, to every client.
	Metrics MetricsServing
	// EnableProfiling serves /debug/pprof on the metrics port (--enable-profiling).
	EnableProfiling bool

	// ClientQPS and ClientBurst bound requests to the API server, which the manager lowers where the
	// server rejects some
	// (--kube-client-qps, --kube-client-burst; the flags' own defaults are lower). Zero means
	// 1000 and 1500: a scale-up of a hundred nodes is about a thousand writes.
	ClientQPS   float32
	ClientBurst int

	// DisableLeaderElection, LeaderElectionName, LeaderElectionNamespace (flags of
	// the same names). Empty means karpenter-leader-election in the pod's own
	// namespace, or in kube-system outside of a cluster.
	DisableLeaderElection   bool
	LeaderElectionName      string
	LeaderElectionNamespace string
	// Namespace is karve's own. Empty means the pod's own, or kube-system outside of a cluster.
	Namespace string
	// LeaseDuration is how long a leader that died is waited for. Zero means 15 s; the
	// leader renews in two thirds of it and others ask every seventh.
	LeaseDuration time.Duration

	// Fence, which the manager sets up, keeps this process from writing once it no longer leads. Give
	// it to what else writes, such as the provider. Nil means one for the manager alone.
	Fence *leader.Fence

	// DisruptEvery, CollectEvery and CollectGrace: see disruption.Options and
	// gc.Collector. Zero means 1 s, 30 s and 1 min. (--orphan-grace-period sets CollectGrace; its
	// own default is 30 s.)
	DisruptEvery, CollectEvery, CollectGrace time.Duration

	// Disruption holds for every decision about nodes (--consolidation-min-savings,
	// --consolidation-min-node-age, --consolidation-expected-stay, --consolidation-rules,
	// --consolidation-steps and the feature gate SpotToSpotConsolidation); see disrupt.Defaults.
	Disruption disrupt.Settings
	// Validation is how long a consolidation must remain valid before its nodes are marked
	// (--consolidation-validation-delay). Zero: they are marked at once.
	Validation time.Duration

	// SurgeNamespaces are those in which Deployments that ask for it are restarted to move their only
	// pod (--surge-namespaces); see termination.Surges.
	SurgeNamespaces []string

	// Limits hold for all creations and voluntary deletions of NodeClaims together.
	Limits Limits

	// Features are off unless asked for (--feature-gates).
	Features Features

	// Settings hold for every decision (--preference-policy, --preference-surplus,
	// --min-values-policy).
	Settings cluster.Settings

	// Panics is notified of panics of goroutines, loops and handlers, also before New. Nil means a
	// reporter that logs to Log. New makes it count panics, too.
	Panics *panics.Reporter

	// Scheme has the types of all objects that are read and written; nil means client-go's. New adds to
	// it, so that managers that are made while others run in the same process need their own.
	Scheme *runtime.Scheme
	// Registry is where metrics are registered; nil means the process's own registry.
	Registry prometheus.Registerer
}

// Features are Karpenter's feature gates: parts of its API that are alpha.
type Features struct {
	// NodeOverlay has NodeOverlays correct prices and capacity.
	NodeOverlay bool
	// CapacityBuffer keeps the capacity free that CapacityBuffers ask for.
	CapacityBuffer bool
	// StaticCapacity keeps as many nodes as NodePools with spec.replicas ask for.
	StaticCapacity bool
	// NodeRepair replaces nodes that the provider knows to be broken for good.
	NodeRepair bool
	// SpotToSpotConsolidation lets spot nodes be replaced by cheaper spot nodes; the code that
	// makes Options.Disruption reads it.
	SpotToSpotConsolidation bool
}

// Limits are how many NodeClaims are created, and deleted although they could stay. A zero rate limits
// nothing.
type Limits struct {
	// CreationsPerMinute and DeletionsPerMinute (--max-creations-per-minute,
	// --max-voluntary-deletions-per-minute).
	CreationsPerMinute, DeletionsPerMinute int
	// SharePerMinute is how many percent of the fleet are allowed a minute where that is more
	// (--max-fleet-share-per-minute).
	SharePerMinute int
}

func (m *Manager) makeGuards(o Options, set *metrics.Set) guard.Guards {
	log := o.Log.WithName("guard")
	return guard.Guards{
		Creations: &guard.Guard{What: "creations of NodeClaims", Flag: "max-creations-per-minute", PerMinute: o.Limits.CreationsPerMinute,
			Share: o.Limits.SharePerMinute, Fleet: m.mirror.CountNodes, Held: set.GuardHeld.WithLabelValues("creation"), Log: log},
		Deletions: &guard.Guard{What: "voluntary deletions of NodeClaims", Flag: "max-voluntary-deletions-per-minute", PerMinute: o.Limits.DeletionsPerMinute,
			Share: o.Limits.SharePerMinute, Fleet: m.mirror.CountNodes, Held: set.GuardHeld.WithLabelValues("deletion"), Log: log},
	}
}

// Manager runs the controllers.
type Manager struct {
	inner   crmanager.Manager
	mirror  *state.Mirror
	buffers *buffer.Keeper // nil unless the feature was asked for
	surges  *termination.Surges
	pause   *control.Pause
	guards  guard.Guards
	ending  *ending
	clock   kube.ServerClock
}

// New wires everything for the cluster at cfg, without starting anything.
func New(cfg *rest.Config, o Options) (m *Manager, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	limit := apilimit.New(o.ClientQPS, o.ClientBurst)
	ending := &ending{}
	options, election := o.inner(cfg, ending), &election{}
	if options.LeaderElection {
		if options.LeaderElectionResourceLockInterface, err = election.lock(&options, o.Fence); err != nil {
			return nil, fmt.Errorf("preparing the leader election: %w", err)
		}
	}
	limited := rest.CopyConfig(cfg)
	limit.Apply(limited)
	inner, err := crmanager.New(limited, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	election.recordEvents(inner)
	m = &Manager{inner: inner, ending: ending}
	set := metrics.New(o.Registry)
	limit.Dated = m.clock.Observe
	limit.Rejected = set.APIRejected.Inc
	metrics.RequestRate(o.Registry, limit.Rate)
	if err := m.wire(cfg, o, set); err != nil {
		return nil, err
	}
	return m, nil
}

// Run works until the context ends. It fails when leadership is lost: another
// process may lead then.
func (m *Manager) Run(ctx context.Context) error {
	m.ending.asked = ctx.Done()
	err := m.inner.Start(ctx)
	if err != nil && err.Error() == lostLease {
		return fmt.Errorf("%w: this process could not renew its lease in time, as when it is paused or the API server "+
			"does not answer, and another process may lead now; this one has stopped writing and ends, to be started "+
			"again as a follower", err)
	}
	return err
}

// lostLease is the text of controller-runtime's error, which has no type.
const lostLease = "leader election lost"

// Client reads from the manager's cache.
func (m *Manager) Client() client.Client { return m.inner.GetClient() }

func (o *Options) complete() error {
	switch {
	case o.Provider == nil:
		return errors.New("manager: Options.Provider is required")
	case o.NodeClass.Kind == "" || o.NodeClass.Version == "":
		return errors.New("manager: Options.NodeClass is required, with group, version and kind")
	}
	def(&o.MetricsPort, 8080)
	def(&o.HealthPort, 8081)
	def(&o.ClientQPS, 1000)
	def(&o.ClientBurst, 1500)
	def(&o.LeaderElectionName, access.DefaultLease)
	def(&o.LeaseDuration, 15*time.Second)
	if o.Fence == nil {
		o.Fence = &leader.Fence{}
	}
	def(&o.Registry, prometheus.Registerer(crmetrics.Registry))
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Panics == nil {
		o.Panics = ReportPanics(o.Log)
	}
	return nil
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) inner(cfg *rest.Config, ending *ending) crmanager.Options {
	stripped := cache.ByObject{Transform: kube.StripOwner}
	yes, renew, ask := true, o.LeaseDuration*2/3, o.LeaseDuration/7
	return crmanager.Options{
		Scheme: cmp.Or(o.Scheme, clientgoscheme.Scheme),
		Logger: o.Log,
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
			&appsv1.ReplicaSet{}: stripped, &appsv1.StatefulSet{}: stripped, &batchv1.Job{}: stripped,
			&corev1.Pod{}: {Transform: kube.StripPod}, &corev1.Node{}: {Transform: kube.StripNode},
		}},
		NewCache: newGuardedCache(o.Panics, ending),
		NewClient: func(cfg *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.New(cfg, options)
			if err != nil {
				return nil, err
			}
			return o.Fence.Client(c), nil
		},
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:                o.metricsServer(),
		HealthProbeBindAddress: address(o.HealthPort),
		Controller:             config.Controller{SkipNameValidation: &yes, RecoverPanic: &yes},

		LeaderElection:          !o.DisableLeaderElection,
		LeaderElectionID:        o.LeaderElectionName,
		LeaderElectionNamespace: o.electionNamespace(),
		// A client of its own: throttled writes must not lose the lease.
		LeaderElectionConfig:          ownLimits(cfg, 20, 30),
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &ask,
	}
}

// MetricsServing is how metrics, and profiles if enabled, are served.
type MetricsServing struct {
	// Secure serves over HTTPS, to clients only whose token the API server accepts and whom it lets
	// get the path (--metrics-secure).
	Secure bool
	// CertDir, CertName and KeyName are the certificate and its key; without a directory the
	// certificate is self-signed (--metrics-cert-path, --metrics-cert-name, --metrics-cert-key).
	CertDir, CertName, KeyName string
}

func (o *Options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{
		BindAddress: address(o.MetricsPort), ExtraHandlers: o.profiles(),
		SecureServing: o.Metrics.Secure, CertDir: o.Metrics.CertDir, CertName: o.Metrics.CertName, KeyName: o.Metrics.KeyName,
	}
	if o.Metrics.Secure {
		server.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return server
}

func address(port int) string {
	if port < 0 {
		return "0" // turns the server off in controller-runtime
	}
	return ":" + strconv.Itoa(port)
}

func (o *Options) profiles() map[string]http.Handler {
	if !o.EnableProfiling {
		return nil
	}
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

func (o *Options) electionNamespace() string {
	if o.LeaderElectionNamespace != "" {
		return o.LeaderElectionNamespace
	}
	if _, err := rest.InClusterConfig(); err != nil {
		return "kube-system"
	}
	return "" // the pod's own
}

// podNamespace is the file that has a pod's own namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func (o *Options) ownNamespace() string {
	if o.Namespace != "" {
		return o.Namespace
	}
	name, err := os.ReadFile(podNamespace)
	if err != nil {
		return metav1.NamespaceSystem
	}
	return strings.TrimSpace(string(name))
}

func ownLimits(cfg *rest.Config, qps float32, burst int) *rest.Config {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = qps, burst
	return own
}

func (m *Manager) wire(cfg *rest.Config, o Options, set *metrics.Set) error {
	ctx := context.Background() // nothing that is wired outlives or awaits it
	if err := kube.AddIndexes(ctx, m.inner.GetFieldIndexer()); err != nil {
		return err
	}
	batches := provision.NewBatcher(o.BatchIdle, o.BatchMax)
	m.mirror = state.NewMirror(batches.Trigger)
	m.mirror.NodeClassKind, m.mirror.OnUrgent = o.NodeClass.GroupKind(), batches.Urgent
	m.mirror.SetSettings(o.Settings)
	if err := m.mirror.Attach(ctx, m.inner.GetCache()); err != nil {
		return err
	}
	m.mirror.OnLocked = func(waited time.Duration) { set.LockWait.Observe(waited.Seconds()) }
	guarded := guardedRegistry{o.Registry, o.Panics}
	if cloud, ok := o.Provider.(provider.RequestReporter); ok {
		metrics.Requests(guarded, o.Provider.Name(), cloud)
	}
	if cloud, ok := o.Provider.(provider.PriceReporter); ok {
		metrics.Prices(guarded, o.Provider.Name(), cloud)
	}
	buildInfo(o.Registry, o.Version)
	recorder, err := m.recorder(cfg, o, set)
	if err != nil {
		return err
	}
	recoverFrom(o.Panics, m.mirror, set, recorder)
	m.mirror.OnNominated = func(pod, node string) { provision.ReportNominated(recorder, m.mirror, pod, node) }
	keeper := catalog.New(o.Provider, m.mirror, set)
	if o.Features.NodeOverlay {
		keeper.Overlays = overlay.Source(m.Client())
	}
	if o.Features.CapacityBuffer {
		m.buffers = buffer.NewKeeper(m.Client(), m.mirror)
	}
	m.pause = &control.Pause{Reader: m.inner.GetAPIReader(), Namespace: o.ownNamespace(), Events: recorder, Metrics: set, Log: o.Log.WithName("pause")}
	m.guards = m.makeGuards(o, set)
	m.surges = &termination.Surges{Client: m.Client(), Live: m.inner.GetAPIReader(), Events: recorder,
		Log: o.Log.WithName("surge"), Namespaces: o.SurgeNamespaces, Supersede: m.mirror.Supersede}
	if err := m.addLoops(o, set, recorder, keeper, batches); err != nil {
		return err
	}
	if err := m.addReconcilers(o, set, recorder, keeper); err != nil {
		return err
	}
	for _, add := range o.Controllers {
		if err := add(m.inner); err != nil {
			return fmt.Errorf("adding a controller of provider %s: %w", o.Provider.Name(), err)
		}
	}
	return m.addProbes()
}

func (m *Manager) recorder(cfg *rest.Config, o Options, set *metrics.Set) (*events.Recorder, error) {
	c, err := eventsClient(cfg, client.Options{Scheme: m.inner.GetScheme(), Mapper: m.inner.GetRESTMapper()}, o.Fence)
	if err != nil {
		return nil, err
	}
	r := events.New(c, o.Log.WithName("events"), set.EventsDropped.Inc)
	r.Panics = o.Panics
	return r, m.add(o.Panics, named{"events", r})
}

// eventsClient is a client for events alone: a thousand pods' events must not hold up a single node.
// The events of a process that no longer leads tell of what it did not do.
func eventsClient(cfg *rest.Config, o client.Options, fence *leader.Fence) (client.Client, error) {
	c, err := client.New(ownLimits(cfg, 200, 400), o)
	if err != nil {
		return nil, fmt.Errorf("making a client for events: %w", err)
	}
	return fence.Client(c), nil
}

func (m *Manager) addLoops(o Options, set *metrics.Set, recorder *events.Recorder, keeper *catalog.Keeper, batches *provision.Batcher) error {
	for _, loop := range []named{
		{"provisioner", &provision.Provisioner{
			Client: m.Client(), Live: m.inner.GetAPIReader(), Mirror: m.mirror, Catalog: keeper, Batches: batches,
			Events: recorder, Metrics: set, Log: o.Log.WithName("provisioner"), Buffers: m.buffers, Guard: m.guards.Creations,
		}},
		{"disruption", disruption.New(disruption.Options{
			Client: m.Client(), Live: m.inner.GetAPIReader(), Mirror: m.mirror, Catalog: keeper,
			Events: recorder, Metrics: set, Log: o.Log.WithName("disruption"), Buffers: m.buffers,
			Settings: o.Disruption, Validation: o.Validation, Every: o.DisruptEvery, Surges: m.surges, Pause: m.pause, Guards: m.guards,
		})},
		{"nodeclaim.garbagecollection", &gc.Collector{
			Client: m.Client(), Live: m.inner.GetAPIReader(), Provider: set.Decorate(o.Provider, "nodeclaim.garbagecollection"),
			Events: recorder, Metrics: set, Log: o.Log.WithName("nodeclaim.garbagecollection"),
			LeftoverCollector: as[provider.LeftoverCollector](o.Provider), UnreadableLister: as[provider.UnreadableLister](o.Provider), Recognizer: as[provider.Recognizer](o.Provider),
			NodeClassKind: o.NodeClass.GroupKind(), Every: o.CollectEvery, Grace: o.CollectGrace, Pause: m.pause,
		}},
		{"pause", m.pause},
		{"reporter", &reporter{mirror: m.mirror, metrics: set}},
	} {
		if err := m.add(o.Panics, loop); err != nil {
			return fmt.Errorf("adding %T: %w", loop.Runnable, err)
		}
	}
	return nil
}

// named is a loop with its name in metrics.
type named struct {
	where string
	crmanager.Runnable
}

// add has the manager run a loop, again after a panic.
func (m *Manager) add(p *panics.Reporter, loop named) error {
	elected, says := loop.Runnable.(crmanager.LeaderElectionRunnable)
	return m.inner.Add(panics.Runnable{Panics: p, Where: loop.where, Run: loop.Start, Everywhere: says && !elected.NeedLeaderElection()})
}

// as returns the provider as T, one of the optional interfaces of package provider; nil when the
// provider lacks it. Pass Options.Provider: the wrapper of metrics.Set.Observe hides them all.
func as[T any](p provider.Provider) T {
	t, _ := p.(T)
	return t
}

func (m *Manager) addReconcilers(o Options, set *metrics.Set, recorder *events.Recorder, keeper *catalog.Keeper) error {
	class, c, live := o.NodeClass.GroupKind(), m.Client(), m.inner.GetAPIReader()
	logOf := func(name string) logr.Logger { return o.Log.WithName(name) }
	ledger := &registrationhealth.Ledger{}
	evictor := termination.NewEvictor(c, recorder, set, logOf("eviction-queue"))
	evictor.Surges, evictor.BeforeRemoval = m.surges, m.mirror.BeginEviction
	for _, r := range append(m.featured(o, set, recorder, keeper), []registrar{
		&lifecycle.Reconciler{
			Client: c, Live: live, Mirror: m.mirror, Catalog: keeper, Provider: set.Decorate(o.Provider, lifecycle.Name),
			Events: recorder, Metrics: set, Log: logOf(lifecycle.Name), NodeClassGVK: o.NodeClass, Health: ledger,
			Clock: &m.clock, FailureObserver: as[provider.FailureObserver](o.Provider), SpotObserver: as[provider.SpotObserver](o.Provider),
			Terminator: &termination.ClaimReconciler{
				Client: c, Clock: &m.clock, Provider: set.Decorate(o.Provider, lifecycle.Name),
				Events: recorder, Metrics: set, Log: logOf("nodeclaim.termination"), NodeClassKind: class,
			},
		},
		&termination.NodeReconciler{
			Client: c, Live: live, Clock: &m.clock, Provider: set.Decorate(o.Provider, "node.termination"),
			Evictor: evictor, Events: recorder, Metrics: set, Log: logOf("node.termination"),
		},
		&interruption.Reconciler{
			Client: c, Provider: set.Decorate(o.Provider, "nodeclaim.interruption"),
			Events: recorder, Metrics: set, Log: logOf("nodeclaim.interruption"), NodeClassKind: class, SpotObserver: as[provider.SpotObserver](o.Provider),
		},
		&drift.Reconciler{
			Client: c, Catalog: keeper, Drifter: as[provider.Drifter](o.Provider), Events: recorder, Metrics: set, Log: logOf(drift.Name), NodeClassGVK: o.NodeClass, Panics: o.Panics,
		},
		&expiration.Reconciler{Client: c, Clock: &m.clock, Metrics: set, Log: logOf("nodeclaim.expiration"), NodeClassKind: class, Pause: m.pause, Guard: m.guards.Deletions},
		&nodepool.Reconciler{Client: c, Mirror: m.mirror, Metrics: set, Log: logOf("nodepool"), NodeClassGVK: o.NodeClass, Health: ledger},
	}...) {
		if err := r.Register(m.inner); err != nil {
			return fmt.Errorf("registering %T: %w", r, err)
		}
	}
	return nil
}

type registrar interface {
	Register(crmanager.Manager) error
}

// featured are the reconcilers of the features that were asked for, or that the provider has.
func (m *Manager) featured(o Options, set *metrics.Set, recorder *events.Recorder, keeper *catalog.Keeper) []registrar {
	var out []registrar
	if o.Features.NodeOverlay {
		out = append(out, &overlay.Reconciler{Client: m.Client(), Catalog: keeper})
	}
	if o.Features.CapacityBuffer {
		out = append(out, &buffer.Reconciler{Client: m.Client(), Live: m.inner.GetAPIReader(), Keeper: m.buffers})
	}
	if o.Features.StaticCapacity {
		out = append(out, &static.Reconciler{
			Client: m.Client(), Live: m.inner.GetAPIReader(), Mirror: m.mirror, Catalog: keeper, Metrics: set,
			Log: o.Log.WithName("nodepool.static"), NodeClassKind: o.NodeClass.GroupKind(), Pause: m.pause, Guards: m.guards,
		})
	}
	if changes, ok := o.Provider.(provider.Updater); ok {
		out = append(out, &inplace.Reconciler{
			Client: m.Client(), Updater: changes, Events: recorder, Metrics: set, Log: o.Log.WithName(inplace.Name), NodeClassGVK: o.NodeClass,
		})
	}
	if learns, ok := o.Provider.(provider.CapacityObserver); ok {
		out = append(out, &observe.Reconciler{Client: m.Client(), Observer: learns, NodeClassKind: o.NodeClass.GroupKind()})
	}
	if knows, ok := o.Provider.(provider.Repairer); ok && o.Features.NodeRepair {
		out = append(out, &repair.Reconciler{
			Client: m.Client(), Policies: knows.RepairPolicies(), Events: recorder, Metrics: set,
			Log: o.Log.WithName(repair.Name), NodeClassKind: o.NodeClass.GroupKind(),
		})
	}
	return out
}

func (m *Manager) addProbes() error {
	if err := m.inner.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding /healthz: %w", err)
	}
	err := m.inner.AddReadyzCheck("synced", func(*http.Request) error {
		if !m.mirror.Synced() {
			return errors.New("the cluster is not known completely yet")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("adding /readyz: %w", err)
	}
	return nil
}
