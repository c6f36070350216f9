// SPDX-License-Identifier: Apache-2.0

package local

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// inherited is the part of this process's environment that karve gets: only variables that any
// process needs. A developer's own Azure credentials and settings must not leak into the demo,
// where they could reach a real subscription.
func inherited() []string {
	var kept []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "GOMAXPROCS", "GODEBUG", "GORACE", "GOCOVERDIR":
			kept = append(kept, entry)
		}
	}
	return kept
}

// azureSettings configure Azure's endpoints and karve's identity there.
func (e *Environment) azureSettings() []string {
	return append(e.azure.Environ(),
		"LOCATION="+e.azure.Location(),
		"AZURE_NODE_RESOURCE_GROUP="+e.azure.NodeResourceGroup(),
		"VNET_SUBNET_ID="+e.azure.SubnetID(),
		// SSL_CERT_FILE, which the emulator's own list has, is not honoured on macOS.
		"AZURE_CA_FILE="+filepath.Join(e.dir, "azure", "ca.pem"),
		"AZURE_PRICES_URL="+e.azure.URL()+"/api/retail/prices",
		// A user who publishes an image here waits for its effect.
		"IMAGE_REFRESH_INTERVAL=15s",
		// Its limits on requests follow its own time scale, and karve is its only client.
		fmt.Sprint("ARM_PACE=", 1/e.options.Azure.TimeScale),
		"ARM_SHARE=1",
	)
}

// clusterSettings configure the cluster that karve serves and how nodes join it.
func (e *Environment) clusterSettings(sshKey string) []string {
	return []string{
		"KUBECONFIG=" + e.karveKubeconfig(),
		"CLUSTER_NAME=" + clusterName,
		"CLUSTER_ENDPOINT=" + e.cluster.PublicEndpoint(),
		"BOOTSTRAP_TOKEN_ID=" + e.cluster.BootstrapTokenID(),
		"SSH_PUBLIC_KEY=" + sshKey,
		"LEADER_ELECTION_NAMESPACE=kube-system",
		"SURGE_NAMESPACES=" + strings.Join(surgeNamespaces, ","),
	}
}

// provisioningSettings choose how karve creates nodes, where that is not its default.
func (e *Environment) provisioningSettings() []string {
	if e.options.ProvisionMode == "" {
		return nil
	}
	return []string{
		"PROVISION_MODE=" + e.options.ProvisionMode,
		"AKS_MACHINES_POOL_NAME=" + e.azure.MachinesPool(),
		"ARM_RESOURCE_GROUP=" + e.azure.ClusterResourceGroup(),
	}
}

const clusterName = "karve"

// sshKey makes a public key for the nodes' administrator. The private half
// is not stored: logging in to a simulated node is impossible.
func sshKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making the nodes' SSH key: %w", err)
	}
	const kind = "ssh-ed25519"
	var blob []byte
	for _, field := range [][]byte{[]byte(kind), public} {
		blob = binary.BigEndian.AppendUint32(blob, uint32(len(field)))
		blob = append(blob, field...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(blob) + " karve-demo", nil
}
