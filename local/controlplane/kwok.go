// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/karve-dev/karve/local/controlplane/kubelets"
)

func parseKwokOptions(args []string) (kubelets.Options, error) {
	var o kubelets.Options
	flags := flag.NewFlagSet("kwok", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&o.Healthz, "healthz-bind-address", "", "host:port to answer /healthz on")
	flags.StringVar(&o.PodCIDR, "pod-cidr", "10.244.0.0/16", "addresses of pods on nodes without a podCIDR")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Kubeconfig == "" || o.Healthz == "" {
		return o, fmt.Errorf("--kubeconfig and --healthz-bind-address are required")
	}
	return o, nil
}

func runKwok(args []string) int {
	o, err := parseKwokOptions(args)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = kubelets.Run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}
