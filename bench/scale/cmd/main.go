// SPDX-License-Identifier: Apache-2.0

// Command cmd measures karve and upstream Karpenter as processes, on a large cluster of a real API
// server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/karve-dev/karve/bench/scale"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	ctrllog.SetLogger(logr.Discard()) // requests that end with the churn are no news
	klog.SetLogger(logr.Discard())
	var o scale.Options
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.IntVar(&o.Nodes, "nodes", 1000, "nodes of the cluster")
	flags.IntVar(&o.Pods, "pods", 30_000, "pods on them")
	flags.IntVar(&o.Pending, "pending", 15_000, "pods that wait when the controllers are started again")
	flags.Float64Var(&o.PerSecond, "churn", 500, "pods a second that come and go, if the API server bears it")
	flags.DurationVar(&o.Churn, "for", time.Minute, "how long pods come and go")
	flags.DurationVar(&o.Patience, "patience", 5*time.Minute, "how long pods may wait for a decision after a restart")
	flags.StringVar(&o.Karve, "karve", "", "the command karve (required)")
	flags.StringVar(&o.Controlplane, "controlplane", "", "the command karve-controlplane (required)")
	flags.StringVar(&o.Upstream, "upstream", "", "upstream's command with its kwok provider; empty leaves it out")
	flags.StringVar(&o.Profiles, "profiles", "", "folder for heap profiles of karve")
	results := flags.String("results", "results", "folder of scale.json; empty saves nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case o.Karve == "" || o.Controlplane == "":
		return errors.New("-karve and -controlplane are required")
	case o.Nodes < 1 || o.Pods < 0 || o.Pending < 1 || o.PerSecond <= 0 || o.Churn <= 0 || o.Patience <= 0:
		return errors.New("-nodes, -pods, -pending, -churn, -for and -patience must be positive")
	}
	dir, err := os.MkdirTemp("", "karve-scale-")
	if err != nil {
		return fmt.Errorf("making a folder for the cluster: %w", err)
	}
	o.Dir, o.Progress = dir, progress(time.Now())
	o.Measured = func(row scale.Row) error {
		if err := scale.Print(os.Stdout, []scale.Row{row}); err != nil || *results == "" {
			return err
		}
		return scale.Save(filepath.Join(*results, "scale.json"), []scale.Row{row})
	}
	if _, err := scale.Run(ctx, o); err != nil {
		return fmt.Errorf("%w; logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func progress(began time.Time) func(string) {
	return func(step string) { fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(began).Seconds(), step) }
}
