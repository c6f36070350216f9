// SPDX-License-Identifier: Apache-2.0

package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/karve-dev/karve/engine/cluster"
)

// hostPorts lists the node's ports that the pod uses while it runs: those of its containers and
// of sidecars (init containers that keep running), as the scheduler counts them. With
// hostNetwork every container port is a host port: the API server writes that into pods, but
// not into the templates of DaemonSets.
func hostPorts(spec *corev1.PodSpec) []cluster.Port {
	var out []cluster.Port
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			out = appendPorts(out, c.Ports, spec.HostNetwork)
		}
	}
	for i := range spec.Containers {
		out = appendPorts(out, spec.Containers[i].Ports, spec.HostNetwork)
	}
	return out
}

// appendPorts keeps invalid port numbers: they are a reason to refuse the pod.
func appendPorts(out []cluster.Port, in []corev1.ContainerPort, all bool) []cluster.Port {
	for i := range in {
		p := &in[i]
		port := p.HostPort
		if port == 0 && all {
			port = p.ContainerPort
		}
		if port == 0 {
			continue
		}
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		out = append(out, cluster.Port{Protocol: string(protocol), IP: p.HostIP, Port: port})
	}
	return out
}
