package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/world"
)

// hostPorts lists the ports of the node that the pod holds while it runs: those
// of its containers and of init containers that stay (sidecars), as the
// scheduler counts them.
func hostPorts(spec *corev1.PodSpec) []world.Port {
	var out []world.Port
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; valueOr(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			out = appendPorts(out, c.Ports)
		}
	}
	for i := range spec.Containers {
		out = appendPorts(out, spec.Containers[i].Ports)
	}
	return out
}

func appendPorts(out []world.Port, in []corev1.ContainerPort) []world.Port {
	for i := range in {
		p := &in[i]
		if p.HostPort <= 0 {
			continue
		}
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		out = append(out, world.Port{Protocol: string(protocol), IP: p.HostIP, Port: p.HostPort})
	}
	return out
}
