// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/audit"
	"github.com/karve-dev/karve/controller/manager"
	"github.com/karve-dev/karve/internal/panics"
)

const (
	// auditEvery is how often time is told to the auditor: what has become late is found then.
	auditEvery = time.Second
	// auditReads bounds a reading of the cloud's lists.
	auditReads = time.Minute
)

// AuditConfig is what an auditor is told.
type AuditConfig struct {
	Azure       AzureConfig // of which an auditor needs where Azure is
	MetricsPort int
	LogLevel    string
	ListEvery   time.Duration
	ObjectLag   time.Duration
	OrphanBound time.Duration
	PodBound    time.Duration
}

func auditCommand() *cobra.Command {
	var c AuditConfig
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Watch a cluster, and report what karve does there against its invariants",
		Long: "audit runs beside a controller and changes nothing. It watches NodePools, NodeClaims, Nodes, pods,\n" +
			"PodDisruptionBudgets and karve's events, and lists the VMs, network interfaces and disks of Azure where\n" +
			"CLUSTER_NAME, AZURE_NODE_RESOURCE_GROUP and ARM_SUBSCRIPTION_ID are set. It logs each violation of an\n" +
			"invariant once and counts it in karve_audit_violations. \"karve rbac audit\" prints the role that it needs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := dieWithParent(); err != nil {
				return err
			}
			if err := fillFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			c.Azure.readEnvironment(os.LookupEnv)
			if err := c.validate(); err != nil {
				return fmt.Errorf("the configuration is not usable:\n%w", err)
			}
			return runAudit(cmd.Context(), c)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}

func (c *AuditConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.Azure.ClusterName, "cluster-name", "", "name of the AKS cluster; without it Azure is not listed")
	flags.StringVar(&c.Azure.NodeResourceGroup, "node-resource-group", "", "resource group of the nodes; without it Azure is not listed")
	flags.StringVar(&c.Azure.CAFile, "azure-ca-file", "", "PEM file of certificate authorities to trust for Azure, besides the system's")
	flags.IntVar(&c.MetricsPort, "metrics-port", 8080, "port of /metrics")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info or error")
	flags.DurationVar(&c.ListEvery, "list-every", time.Minute, "how often Azure is listed")
	flags.DurationVar(&c.ObjectLag, "object-lag", 10*time.Second, "by how much changes of two kinds of objects may be seen in the wrong order")
	flags.DurationVar(&c.OrphanBound, "orphan-bound", 30*time.Minute, "how long a VM, network interface or disk may be without its NodeClaim")
	flags.DurationVar(&c.PodBound, "pod-bound", 20*time.Minute, "how long a pod may wait for a node that there can be")
}

func (c AuditConfig) validate() error {
	var f faults
	f.port("metrics-port", c.MetricsPort)
	f.oneOf("log-level", c.LogLevel, "debug", "info", "error")
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"list-every", c.ListEvery}, {"object-lag", c.ObjectLag}, {"orphan-bound", c.OrphanBound}, {"pod-bound", c.PodBound}} {
		f.check(d.value > 0, d.name, "must be positive, got %s", d.value)
	}
	given := []string{c.Azure.ClusterName, c.Azure.NodeResourceGroup, c.Azure.SubscriptionID}
	if slices.Contains(given, "") && !c.listsNothing() {
		f.add(fmt.Errorf("%s, %s and ARM_SUBSCRIPTION_ID belong together: set all of them to list Azure, or none", spelled("cluster-name"), spelled("node-resource-group")))
	}
	return f.joined()
}

// listsNothing reports whether no setting is about Azure's lists.
func (c AuditConfig) listsNothing() bool {
	return c.Azure.NodeResourceGroup == "" && c.Azure.SubscriptionID == ""
}

func runAudit(ctx context.Context, c AuditConfig) error {
	log, err := openLog(LogConfig{LogLevel: c.LogLevel, LogOutputPaths: []string{"stdout"}})
	if err != nil {
		return err
	}
	ctrllog.SetLogger(log)
	klog.SetLogger(log.WithName("kubernetes"))
	cluster, err := clientconfig.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (set KUBECONFIG, or run in a pod): %w", err)
	}
	log = log.WithName("audit")
	a := newAuditing(c, log)
	if !c.listsNothing() {
		access, err := reachAzure(c.Azure.CloudConfig)
		if err != nil {
			return err
		}
		if a.lists, err = newAzureLists(c.Azure, access); err != nil {
			return err
		}
	}
	log.Info("starting", "version", version, "lists-azure", a.lists != nil)
	return a.run(ctx, cluster, c.MetricsPort)
}

// auditing feeds an Auditor from a live cluster. It guards the Auditor: handlers of several kinds of
// objects run at once.
type auditing struct {
	config AuditConfig
	lists  *azureLists // nil when Azure is not listed
	log    logr.Logger
	panics *panics.Reporter

	registry   *prometheus.Registry
	violations *prometheus.GaugeVec
	checked    prometheus.Gauge
	listed     prometheus.Gauge

	mu      sync.Mutex
	auditor *audit.Auditor
}

func newAuditing(c AuditConfig, log logr.Logger) *auditing {
	a := &auditing{
		config: c, log: log, panics: manager.ReportPanics(log), registry: prometheus.NewRegistry(),
		violations: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "karve_audit_violations", Help: "Violations found since the start, by invariant."}, []string{"invariant"}),
		checked:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "karve_audit_checked_timestamp_seconds", Help: "When invariants were checked last."}),
		listed:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "karve_audit_listed_timestamp_seconds", Help: "When the cloud was listed last; 0 when it is not."}),
		auditor: audit.New(audit.Settings{
			Cluster: c.Azure.ClusterName, ObjectLag: c.ObjectLag, OrphanBound: c.OrphanBound, PodBound: c.PodBound,
		}),
	}
	a.registry.MustRegister(a.violations, a.checked, a.listed)
	for _, id := range audit.Invariants() {
		a.violations.WithLabelValues(id).Set(0)
	}
	return a
}

// run audits until ctx ends.
func (a *auditing) run(ctx context.Context, cluster *rest.Config, port int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	objects, err := a.watch(ctx, cluster)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("listening for requests of metrics: %w", err)
	}
	var group panics.Group
	group.Go(func() error {
		defer stop()
		return a.panics.Do("watch", func() error { return objects.Start(ctx) })
	})
	group.Go(func() error {
		defer stop()
		return a.panics.Do("metrics", func() error { return a.serve(ctx, listener) })
	})
	group.Go(func() error {
		defer stop()
		if !objects.WaitForCacheSync(ctx) {
			return ctx.Err()
		}
		a.log.Info("the cluster is known")
		return a.panics.Loop(ctx, "check", a.checkAll)
	})
	if a.lists != nil {
		group.Go(func() error { return a.panics.Loop(ctx, "list", a.listAll) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("auditing: %w", err)
	}
	return nil
}

// watch makes a cache whose objects are told to the auditor.
func (a *auditing) watch(ctx context.Context, cluster *rest.Config) (cache.Cache, error) {
	objects, err := cache.New(cluster, cache.Options{
		Scheme:           clientscheme.Scheme, // to which Karpenter's API types add themselves
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Event{}: {Field: fields.OneTermEqualSelector("source", "karpenter")}},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the cluster: %w", err)
	}
	for _, kind := range []client.Object{
		&karpv1.NodePool{}, &karpv1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &corev1.Event{},
	} {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(is any) { a.tell(nil, is) },
			UpdateFunc: func(was, is any) { a.tell(was, is) },
			DeleteFunc: func(was any) { a.tell(was, nil) },
		}); err != nil {
			return nil, fmt.Errorf("following %T: %w", kind, err)
		}
	}
	return objects, nil
}

// tell tells the auditor of an object. Of one that was deleted while the watch was interrupted the state
// that was seen last is told.
func (a *auditing) tell(was, is any) {
	if last, ok := was.(toolscache.DeletedFinalStateUnknown); ok {
		was = last.Obj
	}
	before, _ := was.(client.Object)
	now, _ := is.(client.Object)
	if before == nil && now == nil {
		return
	}
	_ = a.panics.Try("audit", fmt.Sprintf("%T", either(now, before)), func() { // the panic is reported
		a.mu.Lock()
		defer a.mu.Unlock()
		a.auditor.Object(time.Now(), before, now)
	})
}

// either is the first of the two that there is.
func either(a, b client.Object) client.Object {
	if a != nil {
		return a
	}
	return b
}

// checkAll reports violations as they are found.
func (a *auditing) checkAll(ctx context.Context) error {
	for ctx.Err() == nil {
		a.report(a.check(time.Now()))
		select {
		case <-ctx.Done():
		case <-time.After(auditEvery):
		}
	}
	return nil
}

func (a *auditing) check(now time.Time) []audit.Violation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auditor.Check(now)
}

func (a *auditing) report(found []audit.Violation) {
	for _, v := range found {
		a.violations.WithLabelValues(v.Invariant).Inc()
		a.log.Info("an invariant is violated", "invariant", v.Invariant, "object", v.Object, "since", v.Since.UTC().Format(time.RFC3339), "violation", v.Message)
	}
	a.checked.SetToCurrentTime()
}

// listAll lists Azure again and again. While it cannot be listed, what depends on it is not late.
func (a *auditing) listAll(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		resources, err := a.lists.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			a.log.Error(err, "could not list Azure; trying again", "in", a.config.ListEvery.String())
		default:
			a.listed.SetToCurrentTime()
		}
		a.listDone(began, resources, err)
		select {
		case <-ctx.Done():
		case <-time.After(a.config.ListEvery):
		}
	}
	return nil
}

func (a *auditing) listDone(at time.Time, resources []audit.Resource, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.auditor.Disturbed(at)
		return
	}
	a.auditor.Cloud(at, resources)
}

// serve answers requests of metrics until ctx ends.
func (a *auditing) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	a.panics.Go("metrics", func() {
		<-ctx.Done()
		_ = server.Close()
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// azureLists reads what the nodes' resource group has.
type azureLists struct {
	group string
	vms   *armcompute.VirtualMachinesClient
	disks *armcompute.DisksClient
	nics  *armnetwork.InterfacesClient
}

func newAzureLists(c AzureConfig, access azureAccess) (*azureLists, error) {
	compute, err := armcompute.NewClientFactory(c.SubscriptionID, access.Credential, access.Options)
	if err != nil {
		return nil, fmt.Errorf("making a client for Azure Compute: %w", err)
	}
	network, err := armnetwork.NewClientFactory(c.SubscriptionID, access.Credential, access.Options)
	if err != nil {
		return nil, fmt.Errorf("making a client for Azure's network: %w", err)
	}
	return &azureLists{group: c.NodeResourceGroup, vms: compute.NewVirtualMachinesClient(), disks: compute.NewDisksClient(), nics: network.NewInterfacesClient()}, nil
}

// read reads all three lists; a part of them would be no list.
func (l *azureLists) read(ctx context.Context) ([]audit.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, auditReads)
	defer cancel()
	vms, err := listed(ctx, l.vms.NewListPager(l.group, nil), func(p armcompute.VirtualMachinesClientListResponse) []*armcompute.VirtualMachine { return p.Value })
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	nics, err := listed(ctx, l.nics.NewListPager(l.group, nil), func(p armnetwork.InterfacesClientListResponse) []*armnetwork.Interface { return p.Value })
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	disks, err := listed(ctx, l.disks.NewListByResourceGroupPager(l.group, nil), func(p armcompute.DisksClientListByResourceGroupResponse) []*armcompute.Disk { return p.Value })
	if err != nil {
		return nil, fmt.Errorf("listing disks: %w", err)
	}
	var out []audit.Resource
	for _, vm := range vms {
		out = append(out, resourceOf(audit.VM, vm.ID, vm.Tags))
	}
	for _, nic := range nics {
		out = append(out, resourceOf(audit.NIC, nic.ID, nic.Tags))
	}
	for _, disk := range disks {
		out = append(out, resourceOf(audit.Disk, disk.ID, disk.Tags))
	}
	return out, nil
}

func listed[P, R any](ctx context.Context, pager *runtime.Pager[P], rows func(P) []*R) ([]*R, error) {
	var out []*R
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(rows(page), func(r *R) bool { return r == nil })...)
	}
	return out, nil
}

func resourceOf(kind string, id *string, tags map[string]*string) audit.Resource {
	r := audit.Resource{Kind: kind, Tags: map[string]string{}}
	if id != nil {
		r.ID = *id
	}
	for key, value := range tags {
		if value != nil {
			r.Tags[key] = *value
		}
	}
	return r
}
