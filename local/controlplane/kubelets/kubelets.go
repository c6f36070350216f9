// SPDX-License-Identifier: Apache-2.0

// Package kubelets simulates the kubelets of nodes that exist only as API objects: nodes
// annotated kwok.x-k8s.io/node=fake. It makes them Ready, renews their leases, and takes
// their pods from bound to running to ready to deleted, in the time that the pods ask for. The
// rules are in stages/, one file each.
//
// It does not write the fields that a node's registrar sets: labels, taints, addresses,
// capacity, allocatable. It never creates or deletes a node. When a node is deleted, or loses
// the annotation, its heartbeats stop.
//
// The engine is kwok's, used as a library. The stock kwok command will not do: its flags
// collide with those of Kubernetes in one program, and it reads ~/.kwok.
package kubelets

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

// Options configure the simulation.
type Options struct {
	// Kubeconfig is the path of the kubeconfig for the API server. Required.
	Kubeconfig string
	// Healthz is the host:port that serves /healthz once the nodes are simulated. Required.
	Healthz string
	// PodCIDR is where pods on nodes without a podCIDR of their own take addresses.
	// Required.
	PodCIDR string
}

// stageParallelism is how many nodes, and how many pods, are written at a time. The
// API server of a laptop answers a status patch in a few milliseconds.
const stageParallelism = 16

// Run simulates until ctx ends, and then returns nil.
func Run(ctx context.Context, o Options) error {
	ctx = kwoklog.NewContext(ctx, kwoklog.NewLogger(os.Stderr, kwoklog.LevelWarn))
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	// One process acts for every node: a limit meant for one client would stall them.
	config.QPS = -1
	config.UserAgent = leaseHolder

	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building client: %w", err)
	}
	client := annotatedNodes{typed}
	if err := startStages(ctx, config, client, o.PodCIDR); err != nil {
		return fmt.Errorf("starting stages: %w", err)
	}
	if err := startLeases(ctx, client); err != nil {
		return fmt.Errorf("starting leases: %w", err)
	}
	return serveHealthz(ctx, o.Healthz)
}

// startStages plays the stages on every node the client can see and on its pods.
func startStages(ctx context.Context, config *rest.Config, client annotatedNodes, podCIDR string) error {
	stages, err := loadStages()
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kwok, err := controllers.NewController(controllers.Config{
		Clock:         clock.RealClock{},
		TypedClient:   client,
		DynamicClient: dynamicClient,
		RESTClient:    client.Discovery().RESTClient(),
		// The client shows annotated nodes only, so "all" is all annotated ones.
		ManageAllNodes:            true,
		CIDR:                      podCIDR,
		LocalStages:               stages,
		PodPlayStageParallelism:   stageParallelism,
		NodePlayStageParallelism:  stageParallelism,
		PodsOnNodeSyncParallelism: stageParallelism,
		// Zero, as startLeases does it: with kwok's own, a pod that lands on a node
		// while its first lease is being written is forgotten.
		NodeLeaseDurationSeconds: 0,
	})
	if err != nil {
		return err
	}
	return kwok.Start(ctx)
}

// serveHealthz answers /healthz until ctx ends.
func serveHealthz(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: address, Handler: mux}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return fmt.Errorf("serving health on %s: %w", address, err)
	}
	return nil
}
