// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane on this computer: etcd,
// kube-apiserver, kube-scheduler, kube-controller-manager, and simulated kubelets for
// nodes annotated kwok.x-k8s.io/node=fake. Each is a child process, listens on a free
// loopback port, and ends with this process, even if that is killed.
//
// It is for demos and tests. Nothing survives a run: Start wipes the files of an earlier run
// from its directory. Two clusters cannot share that directory.
//
// The zero Options are an error: a cluster needs a directory and a binary. The
// zero Cluster is not usable; Start makes them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options configure a cluster.
type Options struct {
	// Dir holds certificates, data, logs and the kubeconfig. Required; it is created
	// if missing. Start wipes etcd/, pki/ and logs/ in it and touches nothing else.
	Dir string
	// Binary is the karve-controlplane program. Empty means bin/karve-controlplane in
	// the repository that holds the working directory.
	Binary string
	// ServersOnly starts etcd and the API server alone, for measurements: nothing changes objects
	// but the programs that are measured.
	ServersOnly bool
	// Progress is called with each step in plain words, in order. Nil means silence.
	Progress func(step string)
}

// Cluster is a running control plane. Its methods may be called from any goroutine.
type Cluster struct {
	layout
	credentials *credentials
	ports       ports
	token       string
	lock        *os.File
	processes   []*process // in starting order
	stopping    sync.Once
	done        chan struct{}
	finish      sync.Once
	err         error // set before done closes
}

// attempts is how often Start picks ports anew when another program took one of them
// between the choice and its use.
const attempts = 3

// Start starts a cluster and returns once every component is healthy and the
// cluster is fit for use: default namespaces and service account exist, kubelets can
// join with BootstrapToken. Ending ctx abandons the start; it does not stop a cluster
// that is running. The caller must Stop what Start returned.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		c, err := startOnce(ctx, o)
		if err == nil {
			c.lock = lock
			return c, nil
		}
		if !errors.Is(err, errPortTaken) || try == attempts {
			return nil, errors.Join(fmt.Errorf("starting control plane: %w", err), lock.Close())
		}
	}
}

func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("cluster: Options.Dir is required")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("resolving %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.Binary, err = findBinary(o.Binary); err != nil {
		return o, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

func startOnce(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{layout: layout{dir: o.Dir}, done: make(chan struct{})}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx, o); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// prepare lays out an empty directory with all files the components read.
func (c *Cluster) prepare() (err error) {
	if err := c.wipe(); err != nil {
		return fmt.Errorf("clearing %s: %w", c.dir, err)
	}
	if c.ports, err = freePorts(); err != nil {
		return fmt.Errorf("choosing ports: %w", err)
	}
	if c.credentials, err = newCredentials(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if c.token, err = newBootstrapToken(); err != nil {
		return fmt.Errorf("making bootstrap token: %w", err)
	}
	if err := c.credentials.write(c.pki()); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	if err := c.writeConfigs(); err != nil {
		return fmt.Errorf("writing configuration: %w", err)
	}
	return nil
}

// bringUp starts the components in the order of their dependence. Components that only
// need the API server start together.
func (c *Cluster) bringUp(ctx context.Context, o Options) error {
	start := time.Now()
	if err := c.launch(o.Binary, c.etcd(), c.apiServer()); err != nil {
		return err
	}
	if err := c.awaitHealthy(ctx, "kube-apiserver"); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("Kubernetes API server ready at %s", c.Endpoint()))
	if err := c.installBootstrap(ctx); err != nil {
		return fmt.Errorf("installing bootstrap objects: %w", err)
	}
	if err := c.startRest(ctx, o); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("control plane ready after %.1f s", time.Since(start).Seconds()))
	return nil
}

// startRest starts what needs the API server.
func (c *Cluster) startRest(ctx context.Context, o Options) error {
	if o.ServersOnly {
		return c.installAccounts(ctx)
	}
	if err := c.launch(o.Binary, c.controllerManager(), c.scheduler(), c.kwok()); err != nil {
		return err
	}
	if err := c.awaitHealthy(ctx, "kube-controller-manager", "kube-scheduler", "kwok"); err != nil {
		return err
	}
	return c.awaitDefaults(ctx)
}

// launch starts processes and watches over each.
func (c *Cluster) launch(binary string, commands ...command) error {
	for _, cmd := range commands {
		p, err := startProcess(binary, cmd, c.log(cmd.name))
		if err != nil {
			return fmt.Errorf("starting %s: %w", cmd.name, err)
		}
		c.processes = append(c.processes, p)
		go func() {
			<-p.exited
			c.end(p.failure())
		}()
	}
	return nil
}

// end records why the cluster is no longer complete. The first reason counts: everything that
// follows a component's end, or Stop, is its consequence.
func (c *Cluster) end(err error) {
	c.finish.Do(func() {
		c.err = err
		close(c.done)
	})
}

// Done is closed when the cluster is no longer complete: a component ended, or Stop was
// called. Err then returns which.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil while the cluster runs and after a plain Stop. If a component died on its
// own it is a *ComponentError.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// stopGrace is how long a component may take to shut down before it is killed. There
// is no state to save, so it is short.
const stopGrace = 2 * time.Second

// Stop ends every component, waits until all have ended, and unlocks the directory.
// Calling it again is harmless.
func (c *Cluster) Stop() {
	c.stopping.Do(func() {
		c.end(nil)
		c.stopProcesses()
		if c.lock != nil {
			_ = c.lock.Close() // a close error of a lock file has no consequence
		}
	})
}

// stopProcesses uses the reverse order of starting: a component whose server has ended
// first only waits for it to start again.
func (c *Cluster) stopProcesses() {
	const servers = 2 // etcd and the API server were started first
	split := min(servers, len(c.processes))
	stopAll(c.processes[split:], stopGrace)
	for _, p := range slices.Backward(c.processes[:split]) {
		stopAll([]*process{p}, stopGrace)
	}
}

// Processes returns the process id of every component by its name, for tests that kill
// one and for profiling.
func (c *Cluster) Processes() map[string]int {
	ids := map[string]int{}
	for _, p := range c.processes {
		ids[p.name] = p.cmd.Process.Pid
	}
	return ids
}

// Endpoint is the URL of the API server.
func (c *Cluster) Endpoint() string { return c.ports.apiServer.url() }

// publicName is a name that AKS could give the API server.
const publicName = "karve-dns-4e6b1a7c.hcp.eastus.azmk8s.io"

// PublicEndpoint is the URL of the API server as AKS would give it, and as its certificate
// has it: by name, on port 443. No resolver has the name; Routes maps it to an address.
func (c *Cluster) PublicEndpoint() string { return "https://" + publicName + ":443" }

// Routes maps the host:port of PublicEndpoint to the real address.
func (c *Cluster) Routes() map[string]string {
	return map[string]string{publicName + ":443": c.ports.apiServer.address()}
}

// CAData is the PEM certificate that signed the API server's, and that signs kubelets'.
func (c *Cluster) CAData() []byte { return c.credentials.cluster.certPEM }

// BootstrapToken is the "id.secret" with which a kubelet asks for its certificate.
func (c *Cluster) BootstrapToken() string { return c.token }

// BootstrapTokenID is the public half of BootstrapToken, which names its secret in kube-system.
func (c *Cluster) BootstrapTokenID() string {
	id, _, _ := strings.Cut(c.token, ".")
	return id
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// RESTConfig is an administrator's client configuration. Its rate limit is high enough
// not to matter: a demo's or test's speed must be the server's, not the client's.
func (c *Cluster) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:  c.Endpoint(),
		QPS:   clientQPS,
		Burst: clientBurst,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.CAData(),
			CertData: c.credentials.admin.certPEM,
			KeyData:  c.credentials.admin.keyPEM,
		},
	}
}
