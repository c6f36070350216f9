// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/karve-dev/karve/azureemulator"
)

const (
	// annotationKwok makes kwok post the node's heartbeats and run its pods.
	// Taking it away is pulling the plug.
	annotationKwok      = "kwok.x-k8s.io/node"
	annotationKwokValue = "fake"
	annotationAttach    = "volumes.kubernetes.io/controller-managed-attach-detach"

	// taintUninitialized keeps pods away until the cloud controller has been
	// there, and taintShutdown while the VM is deallocated.
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	taintShutdown      = "node.cloudprovider.kubernetes.io/shutdown"

	labelBetaOS   = "beta.kubernetes.io/os"
	labelBetaArch = "beta.kubernetes.io/arch"
)

// nodeName is the name a kubelet on m registers under.
func nodeName(m azureemulator.VM, k KubeletConfig) string {
	name := k.Hostname
	if name == "" {
		name = m.ComputerName
	}
	return strings.ToLower(name)
}

// newNode is the Node a kubelet on m would create: complete, not ready, and
// waiting for the cloud controller where the payload says there is one.
func newNode(m azureemulator.VM, p Payload, diskGiB int64, now time.Time) *corev1.Node {
	h := observe(m.Size, diskGiB)
	name := nodeName(m, p.Kubelet)
	all := capacity(h, p)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      ownLabels(name, h.arch),
			Annotations: map[string]string{annotationKwok: annotationKwokValue, annotationAttach: "true"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: p.Kubelet.ProviderID,
			Taints:     slices.Clone(p.Kubelet.Taints),
		},
		Status: corev1.NodeStatus{
			Capacity:    all,
			Allocatable: allocatable(all, p.Kubelet),
			Addresses:   addresses(m.PrivateIP, name),
			NodeInfo:    systemInfo(m, p, h),
			Conditions:  starting(now),
		},
	}
	maps.Copy(n.Labels, p.Kubelet.Labels)
	if p.Kubelet.External {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

// ownLabels are those a kubelet gives every node.
func ownLabels(name, arch string) map[string]string {
	return map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: arch,
		labelBetaOS:            "linux",
		labelBetaArch:          arch,
	}
}

func addresses(ip, name string) []corev1.NodeAddress {
	var list []corev1.NodeAddress
	if ip != "" {
		list = append(list, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return append(list, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
}

func systemInfo(m azureemulator.VM, p Payload, h hardware) corev1.NodeSystemInfo {
	os, kernel := distribution(m.ImageID)
	return corev1.NodeSystemInfo{
		MachineID:               strings.ReplaceAll(string(uuid.NewUUID()), "-", ""),
		SystemUUID:              string(uuid.NewUUID()),
		BootID:                  string(uuid.NewUUID()),
		KernelVersion:           kernel,
		OSImage:                 os,
		ContainerRuntimeVersion: "containerd://2.1.5",
		KubeletVersion:          "v" + p.KubernetesVersion,
		OperatingSystem:         "linux",
		Architecture:            h.arch,
	}
}

// distribution reads the operating system and its kernel off an image id, whose
// definition starts with the release: 2204gen2containerd, V3gen2arm64.
func distribution(imageID string) (os, kernel string) {
	_, definition, _ := strings.Cut(strings.ToLower(imageID), "/images/")
	switch {
	case strings.HasPrefix(definition, "v3"):
		return "Microsoft Azure Linux 3.0", "6.6.104.2-4.azl3"
	case strings.HasPrefix(definition, "v2"):
		return "CBL-Mariner/Linux", "5.15.186.1-1.cm2"
	case strings.HasPrefix(definition, "2404"):
		return "Ubuntu 24.04.3 LTS", "6.8.0-1034-azure"
	case strings.HasPrefix(definition, "2004"):
		return "Ubuntu 20.04.6 LTS", "5.4.0-1146-azure-fips"
	}
	return "Ubuntu 22.04.5 LTS", "5.15.0-1092-azure"
}

// starting is how a kubelet reports itself before its first look around.
func starting(now time.Time) []corev1.NodeCondition {
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available", now),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available", now),
		condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready", now),
	}
}

// silent is how a node looks whose kubelet has not been heard of for too long.
func silent(now time.Time) []corev1.NodeCondition {
	var list []corev1.NodeCondition
	for _, t := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		list = append(list, condition(t, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.", now))
	}
	return list
}

func condition(t corev1.NodeConditionType, s corev1.ConditionStatus, reason, message string, now time.Time) corev1.NodeCondition {
	at := metav1.NewTime(now)
	return corev1.NodeCondition{Type: t, Status: s, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
}
