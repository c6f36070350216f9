// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// Options say what to measure. Dir, Karve and Controlplane are required.
type Options struct {
	Size
	// Dir is for what runs: logs, certificates, etcd's data.
	Dir string
	// Karve and Controlplane are commands; Upstream, too: empty leaves it out.
	Karve, Controlplane, Upstream string
	// PerSecond pods come and go, or as many as the API server bears, for the time Churn.
	PerSecond float64
	Churn     time.Duration
	// Patience is how long pods may wait for a decision after a restart.
	Patience time.Duration
	// Profiles is a folder for karve's heap profiles; empty: none are written.
	Profiles string
	Progress func(string)
	// Measured is called with the row as soon as karve is measured, and again once upstream is.
	Measured func(Row) error
}

// Run measures both sides in one cluster, one after the other.
func Run(ctx context.Context, o Options) (Row, error) {
	row := Row{Nodes: o.Nodes, Pods: o.Pods}
	env, err := local.Start(ctx, local.Options{
		Dir: o.Dir, Controlplane: o.Controlplane, Karve: o.Karve, KarveEnv: []string{"ENABLE_PROFILING=true"}, ServersOnly: true, Progress: o.Progress,
		// VMs are there at once, and there is room for all.
		Azure: azureemulator.Options{TimeScale: 0.001, Seed: 1, DefaultFamilyCores: 10_000_000, RegionalCores: 10_000_000, LowPriorityCores: 10_000_000, VirtualMachines: 1_000_000, SubnetPrefix: "10.224.0.0/14"},
	})
	if err != nil {
		return row, err
	}
	defer func() { _ = env.Close() }() // the measurement counts, however the cluster ends
	b, err := newBench(ctx, o, env)
	if err != nil {
		return row, err
	}
	if err := errors.Join(b.awaitLeader(ctx), env.StopKarve()); err != nil { // which started before there was anything to do
		return row, err
	}
	o.Progress(fmt.Sprintf("creating %d pods", o.Pods))
	if err := b.filler.pods(ctx, o.Pods, o.running, runningStatus); err != nil {
		return row, err
	}
	ours, err := newKarve(ctx, env)
	if err != nil {
		return row, err
	}
	if row.Karve, row.Churn, err = b.measure(ctx, ours); err != nil {
		return row, err
	}
	if err := o.Measured(row); err != nil || o.Upstream == "" {
		return row, err
	}
	theirs, err := newUpstream(ctx, o.Upstream, o.Dir, env)
	if err != nil {
		return row, err
	}
	if row.Upstream, _, err = b.measure(ctx, theirs); err != nil {
		return row, err
	}
	return row, o.Measured(row)
}

// bench is the cluster in which the sides are measured.
type bench struct {
	Options
	filler  filler
	churner *churner
	claims  *claimWatch
	server  *apiServer
}

func newBench(ctx context.Context, o Options, env *local.Environment) (*bench, error) {
	config := rest.CopyConfig(env.RESTConfig())
	config.QPS = -1 // the server's limits are what is measured
	config.WarningHandlerWithContext = rest.NoWarnings{}
	objects, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	informers, err := cache.New(config, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context
	claims, err := watchClaims(ctx, informers)
	if err != nil {
		return nil, err
	}
	server, err := newAPIServer(config)
	return &bench{o, filler{objects}, &churner{client: objects, nodes: o.Nodes}, claims, server}, err
}

// measure has a side work with churn, and restarts it with pods pending.
func (b *bench) measure(ctx context.Context, side controller) (*Side, *Churn, error) {
	b.Progress(fmt.Sprintf("%s: creating %d nodes", side.name(), b.Nodes))
	if err := b.filler.nodes(ctx, b.Nodes, side.origin(), side.made); err != nil {
		return nil, nil, err
	}
	s := &Side{}
	churn, err := b.withChurn(ctx, side, s)
	if err == nil {
		err = b.restart(ctx, side, s)
	}
	if err = errors.Join(err, side.stop()); err != nil {
		return nil, nil, fmt.Errorf("measuring %s: %w", side.name(), err)
	}
	b.Progress(side.name() + ": cleaning up")
	err = errors.Join(b.filler.deletePods(ctx, "pending"), b.filler.deletePods(ctx, "probe"), b.filler.deletePods(ctx, "passing"), b.filler.deleteNodes(ctx))
	return s, &churn, err
}

// withChurn measures decisions while pods come and go.
func (b *bench) withChurn(ctx context.Context, side controller, s *Side) (churn Churn, err error) {
	b.Progress(fmt.Sprintf("%s: churn for %s", side.name(), b.Churn))
	if err := side.start(ctx); err != nil {
		return churn, err
	}
	if err := b.awaitLeader(ctx); err != nil {
		return churn, err
	}
	probes := &prober{filler: b.filler, name: side.name()}
	limited, cancel := context.WithTimeout(ctx, b.Churn)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return probes.run(limited) })
	group.Go(func() error { churn = b.churner.run(limited, b.PerSecond); return nil })
	group.Go(func() error { b.followQueue(limited, side, s); return nil })
	if err := group.Wait(); err != nil {
		return churn, err
	}
	_ = local.Until(ctx, b.Patience/4, "every probe has a NodeClaim", func(context.Context) (bool, error) { // those without one are reported
		return len(probes.latencies(b.claims)) == len(probes.asked), nil
	})
	found := probes.latencies(b.claims)
	s.Details.Decided, s.Details.Probes = len(found), len(probes.asked)
	s.EventToDecision = quantile(0.99, found).Seconds()
	if err := b.account(ctx, side, s); err != nil {
		return churn, err
	}
	return churn, errors.Join(b.profile(ctx, side, "churn"), side.stop())
}

// restart measures the first decisions of a process that finds pods pending.
func (b *bench) restart(ctx context.Context, side controller, s *Side) error {
	b.Progress(fmt.Sprintf("%s: restart with %d pods pending", side.name(), b.Pending))
	if err := b.filler.deletePods(ctx, "probe"); err != nil {
		return err
	}
	if err := b.filler.pods(ctx, b.Pending, pending, unschedulable); err != nil {
		return err
	}
	lists, size, err := b.server.lists(ctx)
	if err != nil {
		return err
	}
	b.claims.reset(b.Pending)
	began := time.Now()
	if err := side.start(ctx); err != nil {
		return err
	}
	err = local.Until(ctx, b.Patience, "there are NodeClaims for every pending pod", func(context.Context) (bool, error) {
		first, full := b.claims.decided()
		return !first.IsZero() && (!full.IsZero() || time.Since(began) > b.Patience), nil
	})
	if err != nil {
		return err
	}
	first, full := b.claims.decided()
	s.RestartSeconds = first.Sub(began).Seconds()
	if !full.IsZero() {
		s.Details.Covered = full.Sub(began).Seconds()
	}
	listsNow, sizeNow, err := b.server.lists(ctx)
	if err != nil {
		return err
	}
	s.Details.Lists, s.Details.ListBytes = listsNow-lists, sizeNow-size
	return errors.Join(b.account(ctx, side, s), b.profile(ctx, side, "restart"))
}

// awaitLeader waits until a process leads. One that is stopped before would keep its lease.
func (b *bench) awaitLeader(ctx context.Context) error {
	began := metav1.NowMicro()
	return local.Until(ctx, time.Minute, "a controller leads", func(ctx context.Context) (bool, error) {
		var lease coordinationv1.Lease
		err := b.filler.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "karpenter-leader-election"}, &lease)
		holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
		return err == nil && holder != nil && *holder != "" && renewed != nil && !renewed.Before(&began), client.IgnoreNotFound(err)
	})
}

// followQueue notes the longest queue.
func (b *bench) followQueue(ctx context.Context, side controller, s *Side) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	_, url := side.process()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if m, err := scrape(ctx, http.DefaultClient, url); err == nil { // the next look may succeed
			s.Details.Queue = max(s.Details.Queue, m.sum("karpenter_scheduler_queue_depth", nil))
		}
	}
}

// account adds what the process has used.
func (b *bench) account(ctx context.Context, side controller, s *Side) error {
	pid, url := side.process()
	u, err := usageOf(pid)
	if err != nil {
		return err
	}
	s.RSSMB, s.CPUSeconds = max(s.RSSMB, u.peak), s.CPUSeconds+u.cpu
	if s.Details.SteadyMB == 0 {
		s.Details.SteadyMB = u.rss
	}
	m, err := scrape(ctx, http.DefaultClient, url)
	if err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	if wait, err := m.quantile(0.99, "karve_mirror_lock_wait_seconds"); err == nil && (s.LockWait == nil || *s.LockWait < wait) {
		s.LockWait = &wait
	}
	return nil
}

// profile saves karve's heap.
func (b *bench) profile(ctx context.Context, side controller, when string) error {
	if _, ours := side.(*karve); !ours || b.Profiles == "" {
		return nil
	}
	_, url := side.process()
	return save(ctx, url[:len(url)-len("/metrics")]+"/debug/pprof/heap", fmt.Sprintf("%s/heap-%d-%s.pb.gz", b.Profiles, b.Nodes, when))
}

// apiServer is asked what requests cost it.
type apiServer struct {
	client *http.Client
	url    string
}

func newAPIServer(config *rest.Config) (*apiServer, error) {
	c, err := rest.HTTPClientFor(config)
	return &apiServer{c, config.Host + "/metrics"}, err
}

// lists is how many lists were requested, and the size of the responses.
func (s *apiServer) lists(ctx context.Context) (requests, bytes float64, err error) {
	m, err := scrape(ctx, s.client, s.url)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	list := map[string]string{"verb": "LIST"}
	return m.sum("apiserver_request_total", list), m.sum("apiserver_response_sizes", list), nil
}

// save writes what a URL has.
func save(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("reading a profile: %w", err)
	}
	defer response.Body.Close()
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing a profile: %w", err)
	}
	_, err = file.ReadFrom(response.Body)
	return errors.Join(err, file.Close())
}
