package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

// kwokOptions configure the simulated kubelets. The stock kwok command is not used:
// its flags collide with Kubernetes' own, it reads ~/.kwok, and it never lets go of a
// node that is no longer its own (see annotatedNodes and leaseKeeper).
type kwokOptions struct {
	kubeconfig string // required
	healthz    string // required; host:port answering /healthz once nodes are looked after
	podCIDR    string // pods on nodes without a podCIDR of their own take addresses here
}

// stageParallelism is how many nodes, and how many pods, are written at a time. The
// API server of a laptop answers a status patch in a few milliseconds.
const stageParallelism = 16

func parseKwokOptions(args []string) (kwokOptions, error) {
	var o kwokOptions
	flags := flag.NewFlagSet("kwok", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&o.healthz, "healthz-bind-address", "", "host:port to answer /healthz on")
	flags.StringVar(&o.podCIDR, "pod-cidr", "10.244.0.0/16", "addresses of pods on nodes without a podCIDR")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.kubeconfig == "" || o.healthz == "" {
		return o, fmt.Errorf("--kubeconfig and --healthz-bind-address are required")
	}
	return o, nil
}

func runKwok(args []string) int {
	o, err := parseKwokOptions(args)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = simulateKubelets(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}

// simulateKubelets runs until ctx ends.
func simulateKubelets(ctx context.Context, o kwokOptions) error {
	ctx = kwoklog.NewContext(ctx, kwoklog.NewLogger(os.Stderr, kwoklog.LevelWarn))
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	// One process speaks for every node: a limit meant for one client would stall them.
	config.QPS = -1
	config.UserAgent = "karve-kwok"

	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building client: %w", err)
	}
	client := annotatedNodes{typed}
	if err := startStages(ctx, config, client, o.podCIDR); err != nil {
		return fmt.Errorf("starting stages: %w", err)
	}
	if err := startLeases(ctx, client); err != nil {
		return fmt.Errorf("starting leases: %w", err)
	}
	return serveHealthz(ctx, o.healthz)
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
		// The client shows annotated nodes only, so "all" is all of ours.
		ManageAllNodes:            true,
		CIDR:                      podCIDR,
		LocalStages:               stages,
		PodPlayStageParallelism:   stageParallelism,
		NodePlayStageParallelism:  stageParallelism,
		PodsOnNodeSyncParallelism: stageParallelism,
		// Zero, as leaseKeeper does it: with kwok's own, a pod that lands on a node
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
