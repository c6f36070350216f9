// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"
)

// serviceCIDR is AKS's default, and kubernetesServiceIP the first address in it, which
// the API server gives to itself.
const (
	serviceCIDR         = "10.0.0.0/16"
	kubernetesServiceIP = "10.0.0.1"
	podCIDR             = "10.244.0.0/16"
)

// The clients' defaults (the controller manager's is 20 requests a second) delay a
// burst of a thousand pods. These are the rates that the server can serve on two cores.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

func (c *Cluster) etcd() command {
	return command{"etcd", []string{
		"--data-dir=" + c.data(),
		"--listen-client-url=" + c.ports.etcd.url(),
		"--cert-file=" + c.pkiFile("etcd-server.crt"),
		"--key-file=" + c.pkiFile("etcd-server.key"),
		"--trusted-ca-file=" + c.pkiFile("etcd-ca.crt"),
	}}
}

func (c *Cluster) apiServer() command {
	return command{"kube-apiserver", []string{
		"--etcd-servers=" + c.ports.etcd.url(),
		"--etcd-cafile=" + c.pkiFile("etcd-ca.crt"),
		"--etcd-certfile=" + c.pkiFile("etcd-client.crt"),
		"--etcd-keyfile=" + c.pkiFile("etcd-client.key"),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// An Endpoints object may not hold a loopback address, and nothing here would
		// call the kubernetes service.
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--secure-port=%d", c.ports.apiServer),
		"--tls-cert-file=" + c.pkiFile("server.crt"),
		"--tls-private-key-file=" + c.pkiFile("server.key"),
		"--client-ca-file=" + c.pkiFile("ca.crt"),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.pkiFile("service-account.pub"),
		"--service-account-signing-key-file=" + c.pkiFile("service-account.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--max-requests-inflight=1600",
		"--max-mutating-requests-inflight=800",
		"--profiling=false",
	}}
}

func (c *Cluster) controllerManager() command {
	args := []string{
		"--kubeconfig=" + c.kubeconfigFile("kube-controller-manager"),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.controllerManager),
		"--tls-cert-file=" + c.pkiFile("server.crt"),
		"--tls-private-key-file=" + c.pkiFile("server.key"),
		"--authentication-skip-lookup=true", // only health can be read anonymously
		"--leader-elect=false",
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.pkiFile("service-account.key"),
		"--root-ca-file=" + c.pkiFile("ca.crt"),
		"--cluster-signing-cert-file=" + c.pkiFile("ca.crt"),
		"--cluster-signing-key-file=" + c.pkiFile("ca.key"),
		"--allocate-node-cidrs=false",
		fmt.Sprintf("--kube-api-qps=%d", clientQPS),
		fmt.Sprintf("--kube-api-burst=%d", clientBurst),
		"--profiling=false",
	}
	for _, busy := range []string{"deployment", "replicaset", "job", "gc", "serviceaccount-token"} {
		args = append(args, fmt.Sprintf("--concurrent-%s-syncs=20", busy))
	}
	return command{"kube-controller-manager", args}
}

func (c *Cluster) scheduler() command {
	return command{"kube-scheduler", []string{
		"--config=" + c.schedulerConfigFile(),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.scheduler),
		"--tls-cert-file=" + c.pkiFile("server.crt"),
		"--tls-private-key-file=" + c.pkiFile("server.key"),
		"--authentication-skip-lookup=true",
	}}
}

func (c *Cluster) kwok() command {
	return command{"kwok", []string{
		"--kubeconfig=" + c.kubeconfigFile("kwok"),
		"--healthz-bind-address=" + c.ports.kwok.address(),
		"--pod-cidr=" + podCIDR,
	}}
}

func (c *Cluster) kubeconfigFile(component string) string {
	return filepath.Join(c.pki(), component+".kubeconfig")
}

func (c *Cluster) schedulerConfigFile() string {
	return c.pkiFile("kube-scheduler.yaml")
}
