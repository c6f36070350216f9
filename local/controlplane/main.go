// SPDX-License-Identifier: Apache-2.0

// Command karve-controlplane is a whole Kubernetes control plane in one file: etcd,
// kube-apiserver, kube-scheduler, kube-controller-manager, a kwok that plays the
// kubelets, and kubectl. The first argument says which of them this process is; the
// rest belong to it:
//
//	karve-controlplane kube-apiserver --secure-port=6443 …
//
// One process is one component. They cannot share: each registers its own logging,
// signal handlers and flags for the whole process. What they share is the file, which
// costs one link instead of six.
//
// It is a module of its own so that karve itself never builds Kubernetes. It is meant
// for laptops and tests: nothing here is hardened, replicated or upgraded.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// applet is one component. It takes the arguments after its name and returns the exit
// code of the process.
type applet struct {
	name string
	run  func(args []string) int
}

func applets() []applet {
	return []applet{
		{"etcd", runEtcd},
		{"kube-apiserver", runAPIServer},
		{"kube-scheduler", runScheduler},
		{"kube-controller-manager", runControllerManager},
		{"kwok", runKwok},
		{"kubectl", runKubectl},
		{"version", runVersion},
	}
}

func main() {
	if err := dieWithParent(os.Getenv(parentFDVariable)); err != nil {
		fmt.Fprintln(os.Stderr, "karve-controlplane:", err)
		os.Exit(2)
	}
	name, args := chosen(os.Args)
	for _, a := range applets() {
		if a.name == name {
			// Each component reads os.Args through its own flag library and expects to
			// find itself first.
			os.Args = append([]string{name}, args...)
			os.Exit(a.run(args))
		}
	}
	fmt.Fprintf(os.Stderr, "usage: karve-controlplane %s [flags]\n", strings.Join(names(), "|"))
	os.Exit(2)
}

// chosen finds the applet's name and its arguments. A link called kubectl is kubectl,
// so that people can put one on their PATH.
func chosen(argv []string) (name string, args []string) {
	if filepath.Base(argv[0]) == "kubectl" {
		return "kubectl", argv[1:]
	}
	if len(argv) < 2 {
		return "", nil
	}
	return argv[1], argv[2:]
}

func names() []string {
	var all []string
	for _, a := range applets() {
		all = append(all, a.name)
	}
	return all
}
