// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// planAgainAfter is how long after a failure the pods of an order are planned for again.
const planAgainAfter = 10 * time.Second

// maxPlans is how often an order is planned for before it counts as not served.
const maxPlans = 50

// Karve serves the scenario's orders with karve's provider.
func Karve(ctx context.Context, s Scenario) (Result, error) {
	return s.withDefaults().serve(ctx, func(d *run) launcher { return d.launchOrder })
}

// launcher serves one order, however often it must try, and returns the price of the
// VM; zero when there is none in the end. Names of VMs are the order's and more.
type launcher func(ctx context.Context, o order) (offering.Price, error)

// run is a scenario under way.
type run struct {
	region   *azureemulator.Server
	wire     *transport
	provider *azure.Provider
}

// serve opens the region and serves each order when its time comes.
func (s Scenario) serve(ctx context.Context, strategy func(*run) launcher) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := s.open(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("opening the region of seed %d: %w", s.Seed, err)
	}
	defer func() { _ = d.region.Close() }() // it has no listener and no guests to wait for
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.provider.Run(ctx) }) // its error is that of ctx
	defer wg.Wait()
	defer cancel()
	catalog, err := d.provider.Catalog(ctx, className)
	if err == nil && catalog.Problem != "" {
		err = fmt.Errorf("the catalog is not whole: %s", catalog.Problem) // prices, for one, would be others than Azure's
	}
	if err != nil {
		return Result{}, err
	}
	return s.work(ctx, d, strategy(d))
}

func (s Scenario) work(ctx context.Context, d *run, launch launcher) (Result, error) {
	orders := s.orders(d.region.Location())
	outcomes := make([]Result, len(orders))
	errs := make([]error, len(orders))
	start := time.Now()
	var wg sync.WaitGroup
	for i, o := range orders {
		wg.Go(func() {
			if errs[i] = Sleep(ctx, o.at); errs[i] != nil {
				return
			}
			outcomes[i], errs[i] = d.serveOrder(ctx, o, launch)
		})
	}
	wg.Wait()
	total := Result{Orders: len(orders), Took: time.Since(start)}
	for _, r := range outcomes {
		total.FirstAttempts += r.FirstAttempts
		total.Served += r.Served
		total.Launches += r.Launches
		total.Price += r.Price
	}
	return total, errors.Join(errs...)
}

// serveOrder serves one order and reads off the wire what that took.
func (d *run) serveOrder(ctx context.Context, o order, launch launcher) (Result, error) {
	price, err := launch(ctx, o)
	r := Result{Price: price, Launches: d.wire.launchesOf("aks-" + o.name + "-")}
	if price > 0 {
		r.Served = 1
		if r.Launches == 1 {
			r.FirstAttempts = 1
		}
	}
	return r, err
}

// launchOrder is karve: a claim that lists what would do, launched until its VM runs.
func (d *run) launchOrder(ctx context.Context, o order) (offering.Price, error) {
	for try := range maxPlans {
		snapshot, err := d.provider.Catalog(ctx, className)
		if err != nil {
			return 0, err
		}
		if choices := o.choices(snapshot); len(choices) > 0 {
			in, err := d.launch(ctx, provider.Claim{
				Name: fmt.Sprintf("%s-%d", o.name, try), UID: fmt.Sprintf("uid-%s-%d", o.name, try), Pool: "drill", Class: className, Offerings: choices,
			})
			if !errors.As(err, new(*provider.CapacityError)) {
				return in.Price, err
			}
		}
		if err := Sleep(ctx, planAgainAfter); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// launch drives a claim as the controller does.
func (d *run) launch(ctx context.Context, c provider.Claim) (provider.Instance, error) {
	for {
		in, err := d.provider.Launch(ctx, c)
		switch {
		case errors.As(err, new(*provider.CapacityError)):
			return in, err
		case err != nil: // tried again with back-off
			in.RetryAfter = time.Second
		case in.State == provider.Running:
			return in, nil
		}
		c.LaunchState = in.LaunchState
		if err := Sleep(ctx, in.RetryAfter); err != nil {
			return in, err
		}
	}
}

const className = "drill"

// open makes the region and a provider that launches there.
func (s Scenario) open(ctx context.Context) (*run, error) {
	region, err := s.region(ctx)
	if err != nil {
		return nil, err
	}
	credential, err := region.Credential()
	if err != nil {
		return nil, err
	}
	authority, err := Authority()
	if err != nil {
		return nil, err
	}
	options := region.ClientOptions()
	d := &run{region: region, wire: newTransport(options.Transport)}
	options.Transport = d.wire
	version := "1.36.3"
	class := &v1beta1.AKSNodeClass{Status: v1beta1.AKSNodeClassStatus{KubernetesVersion: &version}}
	class.Name = className
	d.provider, err = azure.New(ctx, azure.Options{
		Credential: credential, ClientOptions: options,
		SubscriptionID: region.SubscriptionID(), Location: region.Location(), ClusterName: "karve",
		ClusterEndpoint: "https://karve.example:443", CABundle: authority,
		NodeResourceGroup: region.NodeResourceGroup(), VNetSubnetID: region.SubnetID(),
		SSHPublicKey: "ssh-ed25519 AAAA drill", PricesURL: region.URL() + "/api/retail/prices", ARMShare: 1,
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:        azure.ClassesFunc(func(context.Context, string) (*v1beta1.AKSNodeClass, error) { return class, nil }),
	})
	return d, err
}
