// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "fmt"

// packages is the URL at which AKS publishes files that images may lack.
const packages = "https://packages.aks.azure.com"

// kubeBinaries returns the URL from which images fetch a kubelet that they do not contain. From
// 1.34 on it is empty: images use package repositories.
func (n *NodeConfig) kubeBinaries() string {
	if n.minor() >= 34 {
		return ""
	}
	return fmt.Sprintf("%s/kubernetes/v%s/binaries/kubernetes-node-linux-%s.tar.gz", packages, n.Version, n.Arch)
}

// credentialProvider returns the URL from which images fetch the program that lets kubelets pull
// from Azure's registries. From 1.34 on it is empty: images use package repositories. The
// versions are those of parts/common/components.json.
func (n *NodeConfig) credentialProvider() string {
	version := map[int]string{30: "1.30.15", 31: "1.31.12", 32: "1.32.11", 33: "1.33.7"}[n.minor()]
	if version == "" {
		return ""
	}
	return fmt.Sprintf("%s/cloud-provider-azure/v%s/binaries/azure-acr-credential-provider-linux-%s-v%[2]s.tar.gz", packages, version, n.Arch)
}

// pauseImage returns the image of the container that holds the namespaces of a pod.
func (n *NodeConfig) pauseImage() string { return n.cloud().registry + "/oss/kubernetes/pause:3.6" }

// containerd returns the configuration of the runtime: runc or, where karve has the image install
// the GPU driver, NVIDIA's wrapper of it.
func (n *NodeConfig) containerd(gpu bool) string {
	runtime, binary := "runc", "/usr/bin/runc"
	if gpu {
		runtime, binary = "nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"
	}
	streaming, proxy := "", ""
	if n.StreamArtifacts {
		streaming = "\n    snapshotter = \"overlaybd\"\n    disable_snapshot_annotations = false"
		proxy = "[proxy_plugins]\n  [proxy_plugins.overlaybd]\n    type = \"snapshot\"\n    address = \"/run/overlaybd-snapshotter/overlaybd.sock\"\n"
	}
	return fmt.Sprintf(`version = 2
oom_score = -999
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[3]s"
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".containerd]%[4]s
    default_runtime_name = "%[1]s"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[1]s]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[1]s.options]
        BinaryName = "%[2]s"
        SystemdCgroup = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.untrusted]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.untrusted.options]
        BinaryName = "%[2]s"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".registry.headers]
    X-Meta-Source-Client = ["azure/aks"]
[metrics]
  address = "0.0.0.0:10257"
%[5]s`, runtime, binary, n.pauseImage(), streaming, proxy)
}
