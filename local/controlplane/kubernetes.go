// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // CronJobs name time zones, and not every laptop has a database of them

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl users bring their own kubeconfigs
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func runAPIServer([]string) int {
	return cli.Run(apiserver.NewAPIServerCommand())
}

func runScheduler([]string) int {
	return cli.Run(scheduler.NewSchedulerCommand())
}

func runControllerManager([]string) int {
	return cli.Run(controllermanager.NewControllerManagerCommand())
}

// runKubectl is the stock kubectl. A newcomer has none, and this one always matches
// the server.
func runKubectl([]string) int {
	// The verbosity must be known before the command exists: building it already logs.
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl:", err)
		return 2
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}

func runVersion([]string) int {
	fmt.Println(version.Get().GitVersion)
	return 0
}
