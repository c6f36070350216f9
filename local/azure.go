// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/local/storage"
)

// The pace of a real cluster, before the time scale: how long after its last
// heartbeat a node is declared lost, how often the cloud controller looks.
const (
	realSilence    = 50 * time.Second
	realCloudCheck = 5 * time.Second
	// realDiskMove is how long Azure takes to attach or detach a disk.
	realDiskMove = 10 * time.Second
)

// startAzure starts the emulator and the operating system of its VMs.
func (e *Environment) startAzure(ctx context.Context) error {
	o := e.options.Azure
	o.ClusterName = clusterName
	o.Dir = filepath.Join(e.dir, "azure")
	if !e.options.ServersOnly {
		o.Guest = node.NewOS(node.Options{
			Log: e.log, Silence: e.options.scaled(realSilence),
			Cluster: node.Cluster{Server: e.cluster.PublicEndpoint(), CA: e.cluster.CAData(), Token: e.cluster.BootstrapToken()},
			Routes:  e.cluster.Routes(),
		})
	}
	o.Log = e.log
	server, err := azureemulator.Start(ctx, o)
	if err != nil {
		return err
	}
	e.azure = server
	e.options.Progress(fmt.Sprintf("Azure (emulated) is up at %s: region %s, %s", server.URL(), server.Location(), pace(o.TimeScale)))
	return nil
}

// startCloudController starts the controller that maintains the Nodes of VMs.
func (e *Environment) startCloudController(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(e.RESTConfig())
	if err != nil {
		return fmt.Errorf("starting the cloud controller: %w", err)
	}
	controller, err := node.NewCloudController(node.CloudOptions{
		Client:     clients,
		VMs:        node.VMsOf(e.azure),
		CheckEvery: max(e.options.scaled(realCloudCheck), 200*time.Millisecond),
		Log:        e.log,
	})
	if err != nil {
		return fmt.Errorf("starting the cloud controller: %w", err)
	}
	e.cloud = inBackground(ctx, func(ctx context.Context) {
		if err := controller.Run(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("cloud controller ended", "error", err)
		}
	})
	return nil
}

// startDisks installs the StorageClass of AKS and starts the driver behind it.
func (e *Environment) startDisks(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(e.RESTConfig())
	if err != nil {
		return err
	}
	if err := storage.Install(ctx, clients); err != nil {
		return fmt.Errorf("installing the disk driver: %w", err)
	}
	driver, err := storage.New(storage.Options{
		Client:          clients,
		ResourceGroupID: "/subscriptions/" + e.azure.SubscriptionID() + "/resourceGroups/" + e.azure.NodeResourceGroup(),
		Delay:           e.options.scaled(realDiskMove),
		Log:             e.log,
	})
	if err != nil {
		return err
	}
	e.disks = inBackground(ctx, func(ctx context.Context) {
		if err := driver.Run(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("disk driver ended", "error", err)
		}
	})
	return nil
}

// scaled converts a delay of real time to the emulator's time scale.
func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.Azure.TimeScale)
}

// pace describes how fast Azure's clock runs.
func pace(scale float64) string {
	switch {
	case scale == 0:
		return "without any delays"
	case scale == 1:
		return "with Azure's real delays"
	}
	return fmt.Sprintf("its delays compressed %.3g-fold", 1/scale)
}

// background is work that runs until it is stopped.
type background struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// inBackground starts work that keeps ctx's values, but not its end: Close
// decides the order in which things end.
func inBackground(ctx context.Context, work func(context.Context)) *background {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &background{cancel: cancel}
	b.done.Go(func() { work(ctx) })
	return b
}

func (b *background) stop() {
	b.cancel()
	b.done.Wait()
}
