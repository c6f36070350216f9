// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
)

// Payload is what a node takes from its customData: whom to join, with what
// credential, and as what.
type Payload struct {
	// Server is the API server as host:port, of which the image adds the port.
	Server string
	// CA is the cluster's certificate authority in PEM.
	CA []byte
	// Token is the bootstrap token. It is a secret: never log a Payload.
	Token string
	// KubernetesVersion is the kubelet's version, without a leading "v".
	KubernetesVersion string
	// GPUDriver reports that the image installs AKS's NVIDIA driver.
	GPUDriver bool
	Kubelet   KubeletConfig
	// System is what the VM's kernel is told.
	System System
}

// versionForm is the release form of Kubernetes versions, which is all that
// images are published for.
var versionForm = regexp.MustCompile(`^1\.[0-9]{1,3}\.[0-9]{1,4}(-[a-z0-9]+)?$`)

// ReadPayload runs customData and reads what the provisioning script of an AKS
// image would read, under the names that script uses. The error says why the
// VM would never join; it holds no secret.
//
// customData may be either contract: a script that exports the variables, or a
// document for the node controller that makes them.
func ReadPayload(ctx context.Context, customData []byte) (Payload, error) {
	return readPayload(ctx, customData, "")
}

// Environment is what the provisioning script of an image of that version (empty: a
// new one) would be started with. It holds secrets.
func Environment(ctx context.Context, customData []byte, version string) (map[string]string, error) {
	return provisionEnvironment(ctx, customData, version)
}

func readPayload(ctx context.Context, customData []byte, version string) (Payload, error) {
	env, err := provisionEnvironment(ctx, customData, version)
	if err != nil {
		return Payload{}, err
	}
	return readEnvironment(env)
}

func readEnvironment(env map[string]string) (Payload, error) {
	p := Payload{
		Token:             env["TLS_BOOTSTRAP_TOKEN"],
		KubernetesVersion: strings.TrimPrefix(env["KUBERNETES_VERSION"], "v"),
		// Where CONFIG_GPU_DRIVER_IF_NEEDED is not true either: scripts look for a driver that
		// works first then, and install theirs when they find none.
		GPUDriver: env["GPU_NODE"] == "true",
	}
	var err error
	if p.Server, err = serverAddress(env["API_SERVER_NAME"]); err != nil {
		return Payload{}, fmt.Errorf("reading API_SERVER_NAME: %w", err)
	}
	if p.CA, err = certificateAuthority(env["KUBE_CA_CRT"]); err != nil {
		return Payload{}, fmt.Errorf("reading KUBE_CA_CRT: %w", err)
	}
	if p.Token == "" {
		return Payload{}, errors.New("TLS_BOOTSTRAP_TOKEN is missing: the kubelet has no way to ask for a certificate")
	}
	if !versionForm.MatchString(p.KubernetesVersion) {
		return Payload{}, fmt.Errorf("KUBERNETES_VERSION is %q, no kubelet has that version", p.KubernetesVersion)
	}
	if env["KUBELET_CONFIG_FILE_ENABLED"] == "true" {
		return Payload{}, errors.New("KUBELET_CONFIG_FILE_ENABLED is true: this VM reads kubelet flags only")
	}
	// The image's service unit passes KUBELET_NODE_LABELS as one word, and
	// KUBELET_FLAGS split at white space with no regard to quotes.
	command := append([]string{"--node-labels=" + env["KUBELET_NODE_LABELS"]}, strings.Fields(env["KUBELET_FLAGS"])...)
	if p.Kubelet, err = parseKubelet(command, p.KubernetesVersion); err != nil {
		return Payload{}, fmt.Errorf("starting the kubelet: %w", err)
	}
	if p.System, err = readSystem(env); err != nil {
		return Payload{}, fmt.Errorf("setting up the system: %w", err)
	}
	if p.System.SwapMiB > 0 && p.Kubelet.FailsOnSwap {
		return Payload{}, errors.New("starting the kubelet: --fail-swap-on is true, and the VM has swap")
	}
	if p.System.DNSCache != "" && !slices.Equal(p.Kubelet.DNS, []string{cacheForPods}) {
		return Payload{}, fmt.Errorf("--cluster-dns is %v: the VM runs a DNS cache at %s that no pod would ask", p.Kubelet.DNS, cacheForPods)
	}
	return p, checkCredentialProvider(env, p.KubernetesVersion)
}

// serverAddress appends :443, as the scripts of the image do wherever they use the name. They
// look the name up first and exit, before the kubelet starts, when it is none.
func serverAddress(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("it is missing: the node does not know whom to join")
	case strings.ContainsAny(name, "/?#@[] \t\n") || strings.Count(name, ":") > 1:
		return "", fmt.Errorf("%q is not a host name", name)
	case strings.Contains(name, ":"):
		return "", fmt.Errorf("%q has a port: the image appends :443 to it, and finds no such host", name)
	}
	return net.JoinHostPort(name, "443"), nil
}

func certificateAuthority(encoded string) ([]byte, error) {
	if encoded == "" {
		return nil, errors.New("it is missing: the node cannot trust any API server")
	}
	// base64 -d, as the image uses it, passes over line breaks.
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(encoded), ""))
	if err != nil {
		return nil, fmt.Errorf("it is not base64: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no PEM certificate")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("it holds a broken certificate: %w", err)
	}
	return data, nil
}
