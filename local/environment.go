// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local/cluster"
)

// DefaultDir is where karve-demo keeps its state, relative to the current folder.
const DefaultDir = ".karve/demo"

// Options configure an Environment. Karve is required; the rest may be zero when the
// control plane's binary lies beside this executable.
type Options struct {
	// Dir holds all state: certificates, logs, kubeconfig. Files of an earlier run
	// there are overwritten. Empty means DefaultDir.
	Dir string
	// Controlplane is the karve-controlplane binary. Empty means $KARVE_CONTROLPLANE,
	// else the file of that name beside this executable.
	Controlplane string
	// Karve is the karve binary, whose "controller" runs. Required.
	Karve string
	// KarveEnv are further settings for karve, "NAME=value".
	KarveEnv []string
	// ProvisionMode is karve's setting of that name: what creates VMs. Empty: Compute.
	ProvisionMode string
	// Azure adjusts the emulator: time scale, quota, stock. Dir, Guest and Log are set by Start.
	Azure azureemulator.Options
	// ServersOnly leaves out everything that changes Kubernetes objects besides karve: scheduler,
	// controllers, kubelets, the cloud controller, the disk driver, and what VMs do once they boot.
	ServersOnly bool
	// Progress is called with each step, in words, as it ends. Nil: no reports.
	Progress func(step string)
	// If Restarted is set, karve is started again when it ends by itself, as a Deployment would,
	// and Restarted is called each time. Nil: karve is not restarted, which Err and Wait report.
	Restarted func(what string)
}

// Environment is a running system. Its methods are safe for concurrent use.
type Environment struct {
	options   Options
	dir       string
	cluster   *cluster.Cluster
	azure     *azureemulator.Server
	cloud     *background
	disks     *background
	karve     *karve
	settings  []string    // of karve, "NAME=value"
	restarter *background // starts karve again
	client    client.Client
	logs      *os.File
	log       *slog.Logger
}

// Start starts everything: control plane, Azure, its disks' StorageClass, CRDs,
// the default AKSNodeClass, karve. It returns when karve is ready to launch nodes. Close must be
// called; a failed Start ends what it started before it returns.
func Start(ctx context.Context, o Options) (*Environment, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Environment{options: o, dir: o.Dir}
	for _, step := range e.steps() {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// steps are those of Start, in order.
func (e *Environment) steps() []func(context.Context) error {
	cloud := []func(context.Context) error{e.startAzure, e.startCloudController, e.startDisks}
	if e.options.ServersOnly {
		cloud = cloud[:1]
	}
	return slices.Concat([]func(context.Context) error{e.startCluster, e.openLogs}, cloud,
		[]func(context.Context) error{e.installDefinitions, e.installAccess, e.startKarve})
}

func (o Options) withDefaults() (Options, error) {
	if o.Karve == "" {
		return o, errors.New("local: Options.Karve is required")
	}
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("finding this executable: %w", err)
	}
	if o.Controlplane == "" {
		o.Controlplane = os.Getenv("KARVE_CONTROLPLANE")
	}
	if o.Controlplane == "" {
		o.Controlplane = filepath.Join(filepath.Dir(self), "karve-controlplane")
	}
	o.Dir, err = filepath.Abs(o.Dir)
	return o, err
}

// openLogs runs after the start of the control plane, which empties the folder of logs and
// keeps any second run out.
func (e *Environment) openLogs(context.Context) error {
	logs := filepath.Join(e.dir, "logs")
	file, err := os.Create(filepath.Join(logs, "azure.log"))
	if err != nil {
		return fmt.Errorf("opening the emulator's log: %w", err)
	}
	e.logs = file
	e.log = slog.New(slog.NewTextHandler(file, nil))
	return nil
}

func (e *Environment) startCluster(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{Dir: e.dir, Binary: e.options.Controlplane, ServersOnly: e.options.ServersOnly})
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	e.cluster = c
	config := c.RESTConfig()
	// Deprecation warnings are for authors of manifests, not for this output.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	e.client, err = client.New(config, client.Options{Scheme: kinds()})
	if err != nil {
		return fmt.Errorf("making a client for the control plane: %w", err)
	}
	e.options.Progress("Kubernetes is up: " + e.parts())
	return nil
}

// parts names what runs of Kubernetes.
func (e *Environment) parts() string {
	if e.options.ServersOnly {
		return "etcd, API server"
	}
	return "etcd, API server, scheduler, controller manager, simulated kubelets"
}

func (e *Environment) startKarve(ctx context.Context) error {
	key, err := sshKey()
	if err != nil {
		return err
	}
	e.settings = slices.Concat(inherited(), e.azureSettings(), e.clusterSettings(key), e.provisioningSettings(), e.options.KarveEnv)
	e.karve = newKarve([]string{e.options.Karve, "controller"}, e.settings, e.karveLog("karve"), e.options.Restarted)
	if err := e.karve.start(ctx); err != nil {
		return err
	}
	if e.options.Restarted != nil {
		e.restarter = inBackground(ctx, e.karve.restartWhenEnded)
	}
	e.options.Progress("karve is up")
	return nil
}

func (e *Environment) karveLog(name string) string { return filepath.Join(e.dir, "logs", name+".log") }

// Close ends everything, in the order that loses nothing: karve first, for it
// talks to all others.
func (e *Environment) Close() error {
	var errs []error
	if e.restarter != nil {
		e.restarter.stop()
	}
	if e.karve != nil {
		errs = append(errs, e.StopKarve())
	}
	for _, work := range []*background{e.disks, e.cloud} {
		if work != nil {
			work.stop()
		}
	}
	if e.azure != nil {
		errs = append(errs, e.azure.Close())
	}
	if e.cluster != nil {
		e.cluster.Stop()
	}
	if e.logs != nil {
		errs = append(errs, e.logs.Close())
	}
	return errors.Join(errs...)
}

// Err returns what ended by itself for good: a part of the control plane, or karve. Nil
// while everything runs, or karve is restarted.
func (e *Environment) Err() error { return errors.Join(e.cluster.Err(), e.karve.err()) }

// Kubeconfig is the path of an administrator's kubeconfig.
func (e *Environment) Kubeconfig() string { return e.cluster.Kubeconfig() }

// RESTConfig reaches the control plane as administrator.
func (e *Environment) RESTConfig() *rest.Config { return e.cluster.RESTConfig() }

// Client reads and writes Kubernetes objects as administrator, uncached.
func (e *Environment) Client() client.Client { return e.client }

// Emulator is the Azure in which karve launches VMs.
func (e *Environment) Emulator() *azureemulator.Server { return e.azure }
