// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/controller/manager"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

func controllerCommand() *cobra.Command {
	var c Config
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller (what a cluster's Deployment runs)",
		Long: "controller provisions nodes for the cluster that KUBECONFIG or the pod's service account names.\n" +
			"Every flag can be set by the environment variable of the same name in upper snake case.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := dieWithParent(); err != nil {
				return err
			}
			if err := c.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return fmt.Errorf("the configuration is not usable:\n%w", err)
			}
			return run(cmd.Context(), c)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}

// complete fills what flags left open from the environment, and validates.
func (c *Config) complete(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if err := fillFromEnvironment(flags, lookup); err != nil {
		return err
	}
	c.Azure.readEnvironment(lookup)
	return c.Validate()
}

// run wires the cluster, Azure and the controllers, and works until ctx ends.
func run(ctx context.Context, c Config) error {
	limitMemory(c.Core.MemoryLimit)
	log, err := openLog(c.Core.LogConfig)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(log)
	klog.SetLogger(log.WithName("kubernetes"))

	cluster, err := clientconfig.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (set KUBECONFIG, or run in a pod): %w", err)
	}
	access, err := reachAzure(c.Azure.CloudConfig)
	if err != nil {
		return err
	}
	if err := access.proveIdentity(ctx); err != nil {
		return err
	}
	return control(ctx, c, cluster, access, log)
}

// control runs the controllers for a cluster with a cloud.
func control(ctx context.Context, c Config, cluster *rest.Config, access azureAccess, log logr.Logger) error {
	classes := &lateReader{}
	options, err := c.Azure.options(ctx, cluster, access)
	if err != nil {
		return err
	}
	tokens, err := c.Azure.tokens(cluster, log)
	if err != nil {
		return err
	}
	recovered := manager.ReportPanics(log)
	fence := &leader.Fence{}
	options.Panics, options.MayWrite = recovered, fence.Check
	options.BootstrapToken = tokens.Token
	options.Classes = nodeclass.Classes(classes)
	options.Log = slog.New(logr.ToSlogHandler(log.WithName("azure")))
	cloud, err := azure.New(ctx, options)
	if err != nil {
		return fmt.Errorf("configuring the provider: %w", err)
	}
	versions, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return fmt.Errorf("making a client for the cluster's version: %w", err)
	}
	add := func(m crmanager.Manager) error {
		reconciler := &nodeclass.Reconciler{
			Client: m.GetClient(), Azure: cloud, Versions: versions, Window: c.Azure.Images.window(m.GetAPIReader()), Log: log.WithName(nodeclass.Name), Every: min(nodeclass.Every, c.Azure.ImageRefresh), Panics: recovered,
		}
		return errors.Join(reconciler.Register(m),
			m.Add(panics.Runnable{Panics: recovered, Where: "azure", Run: cloud.Run}),
			m.Add(panics.Runnable{Panics: recovered, Where: "tokens", Run: tokens.Start}))
	}
	settings := c.Core.options(cloud, log, add)
	settings.Panics, settings.Fence, settings.Namespace = recovered, fence, c.Azure.Images.SystemNamespace
	m, err := manager.New(cluster, settings)
	if err != nil {
		return fmt.Errorf("wiring the controllers: %w", err)
	}
	classes.reader = m.Client()
	log.Info("starting", "version", version, "cluster", c.Azure.ClusterName, "location", c.Azure.Location)
	return m.Run(ctx)
}

// lateReader is a client that comes after its first user: the provider wants to
// read node classes, and the manager, whose cache has them, wants the provider.
// The reader is set before anything runs.
type lateReader struct{ reader client.Reader }

func (l *lateReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return l.reader.Get(ctx, key, object, opts...)
}

func (l *lateReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.reader.List(ctx, list, opts...)
}

// options are the manager's share of the configuration.
func (c CoreConfig) options(cloud *azure.Provider, log logr.Logger, add func(crmanager.Manager) error) manager.Options {
	gates, _ := features(c.FeatureGates) // validated
	return manager.Options{
		Provider:                cloud,
		NodeClass:               v1beta1.GroupVersion().WithKind(v1beta1.Kind),
		Controllers:             []func(crmanager.Manager) error{add},
		Log:                     log,
		Version:                 version,
		BatchIdle:               c.BatchIdleDuration,
		BatchMax:                c.BatchMaxDuration,
		MetricsPort:             portOrNone(c.MetricsPort),
		HealthPort:              portOrNone(c.HealthProbePort),
		Metrics:                 c.MetricsConfig.options(),
		EnableProfiling:         c.EnableProfiling,
		ClientQPS:               float32(c.KubeClientQPS),
		ClientBurst:             c.KubeClientBurst,
		DisableLeaderElection:   c.DisableLeaderElection,
		LeaderElectionName:      c.LeaderElectionName,
		LeaderElectionNamespace: c.LeaderElectionNamespace,
		LeaseDuration:           c.LeaseDuration,
		Features:                gates,
		Settings:                c.settings(),
		Disruption:              c.disruption(),
		Validation:              c.ConsolidationValidation,
		CollectGrace:            c.OrphanGrace,
		SurgeNamespaces:         c.SurgeNamespaces,
		Limits:                  c.GuardConfig.limits(),
	}
}

// portOrNone turns the flag's 0 (no listener) into the manager's word for it.
func portOrNone(port int) int {
	if port == 0 {
		return -1
	}
	return port
}

// options are the provider's share of the configuration.
func (c AzureConfig) options(ctx context.Context, cluster *rest.Config, access azureAccess) (azure.Options, error) {
	authority, err := authorityOf(cluster)
	if err != nil {
		return azure.Options{}, err
	}
	dns, err := c.dnsServiceIP(ctx, cluster)
	if err != nil {
		return azure.Options{}, err
	}
	uid, err := clusterUID(ctx, cluster)
	if err != nil {
		return azure.Options{}, err
	}
	custom, err := c.customCloud()
	if err != nil {
		return azure.Options{}, err
	}
	return azure.Options{
		Credential:              access.Credential,
		ClientOptions:           access.Options,
		SubscriptionID:          c.SubscriptionID,
		TenantID:                c.TenantID,
		Location:                c.Location,
		ClusterName:             c.ClusterName,
		ClusterUID:              uid,
		ClusterEndpoint:         c.ClusterEndpoint,
		CABundle:                authority,
		NodeResourceGroup:       c.NodeResourceGroup,
		VNetSubnetID:            c.VNetSubnetID,
		VNetGUID:                c.VNetGUID,
		SecurityGroupID:         c.SecurityGroupID,
		LoadBalancers:           c.LoadBalancers,
		NetworkPlugin:           c.plugin(),
		NetworkPluginMode:       c.NetworkPluginMode,
		NetworkDataplane:        c.NetworkDataplane,
		NetworkPolicy:           c.NetworkPolicy,
		DNSServiceIP:            dns,
		NodeIdentities:          c.NodeIdentities,
		KubeletIdentityClientID: c.KubeletIdentityClientID,
		SSHPublicKey:            c.SSHPublicKey,
		AdminUsername:           c.LinuxAdminUsername,
		BootstrapContract:       bootstrap.Contract(c.BootstrapContract), // validated
		CustomCloud:             custom,
		VMMemoryOverheadPercent: &c.VMMemoryOverheadPercent,
		AdditionalTags:          c.AdditionalTags,
		NodeFeePerMonth:         c.FeePerMonth,
		PricesURL:               c.PricesURL,
		ImagesEvery:             c.ImageRefresh,
		SharedGallery:           c.Images.gallery(),
		DiskEncryptionSetID:     c.Images.DiskEncryptionSetID,
		AKSMachines:             c.Machines.options(),
		ARMShare:                c.ARMShare,
		ARMPace:                 c.ARMPace,
	}, nil
}

// tokens follow the cluster's bootstrap tokens once they are started.
func (c ClusterConfig) tokens(cluster *rest.Config, log logr.Logger) (*bootstrapTokens, error) {
	secrets, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("making a client for bootstrap tokens: %w", err)
	}
	return newBootstrapTokens(secrets, c.BootstrapTokenID, c.KubeletBootstrapToken, log.WithName("tokens"))
}

// authorityOf is the certificate that nodes must trust to join: the one we trust.
func authorityOf(cluster *rest.Config) ([]byte, error) {
	if len(cluster.CAData) > 0 {
		return cluster.CAData, nil
	}
	if cluster.CAFile == "" {
		return nil, errors.New("the kubeconfig names no certificate authority, which nodes need to join the cluster")
	}
	pem, err := os.ReadFile(cluster.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	return pem, nil
}

// dnsServiceIP is the flag's value, else the address of kube-system/kube-dns. A
// cluster without that service gets AKS's default from the provider.
func (c NetworkConfig) dnsServiceIP(ctx context.Context, cluster *rest.Config) (string, error) {
	if c.DNSServiceIP != "" {
		return c.DNSServiceIP, nil
	}
	reader, err := client.New(cluster, client.Options{})
	if err != nil {
		return "", fmt.Errorf("connecting to the cluster: %w", err)
	}
	var service corev1.Service
	err = reader.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, &service)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("looking up the cluster's DNS address (set %s to skip this): %w", spelled("dns-service-ip"), err)
	}
	return service.Spec.ClusterIP, nil
}

// clusterUID is the UID of the namespace kube-system, which lives as long as the cluster.
func clusterUID(ctx context.Context, cluster *rest.Config) (string, error) {
	reader, err := client.New(cluster, client.Options{})
	if err != nil {
		return "", fmt.Errorf("connecting to the cluster: %w", err)
	}
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("reading the namespace kube-system, by whose UID VMs are known to be this cluster's: %w", err)
	}
	return string(system.UID), nil
}

// limitMemory tells Go's collector to keep well below the container's limit, past
// which the kernel would kill us.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(int64(math.Floor(float64(limit) * 0.9)))
	}
}
