// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeConfigs writes a kubeconfig for each client of the API server, people included,
// and the scheduler's configuration.
func (c *Cluster) writeConfigs() error {
	for path, client := range map[string]*pair{
		c.Kubeconfig(): c.credentials.admin,
		c.kubeconfigFile("kube-controller-manager"): c.credentials.controllerManager,
		c.kubeconfigFile("kube-scheduler"):          c.credentials.scheduler,
		c.kubeconfigFile("kwok"):                    c.credentials.kwok,
	} {
		if err := clientcmd.WriteToFile(c.kubeconfigFor(client), path); err != nil {
			return err
		}
	}
	return os.WriteFile(c.schedulerConfigFile(), []byte(c.schedulerConfig()), 0o600)
}

// kubeconfigFor holds its certificates inside, so that the file can be copied away.
func (c *Cluster) kubeconfigFor(client *pair) clientcmdapi.Config {
	const name = "karve"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Endpoint(), CertificateAuthorityData: c.CAData()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.certPEM, ClientKeyData: client.keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return *config
}

func (c *Cluster) schedulerConfig() string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: %d
  burst: %d
leaderElection:
  leaderElect: false
enableProfiling: false
`, c.kubeconfigFile("kube-scheduler"), clientQPS, clientBurst)
}
