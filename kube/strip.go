// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StripPod is a cache transform: it drops what nothing of karve's reads of a pod, and shares strings
// that many pods have. A cluster's pods are most of what karve keeps in memory.
//
// What is dropped are fields of a pod that only its kubelet, or a person, reads. All that a plan
// depends on stays, and so does what is not listed here: a field that Kubernetes adds.
func StripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T is no Pod", o)
	}
	p.ManagedFields = nil
	p.Annotations = ownAnnotations(p.Annotations)
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i] = stripContainer(&containers[i])
		}
	}
	p.Spec.EphemeralContainers = nil // they have no resources
	p.Spec.SecurityContext, p.Spec.ImagePullSecrets, p.Spec.DNSConfig, p.Spec.HostAliases = nil, nil, nil, nil
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Projected != nil {
			v.Projected = &corev1.ProjectedVolumeSource{} // each pod has one with its token
		}
	}
	stripPodStatus(&p.Status)
	sharePodStrings(p)
	return p, nil
}

// annotationDomains are those of the annotations that karve reads of pods.
var annotationDomains = []string{"karpenter.sh/", "karve.dev/", "controller.kubernetes.io/", "kubernetes.io/", "cluster-autoscaler.kubernetes.io/", "autoscaling.x-k8s.io/"}

func ownAnnotations(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(key, _ string) bool {
		for _, domain := range annotationDomains {
			if strings.HasPrefix(key, domain) {
				return false
			}
		}
		return true
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

func stripContainer(c *corev1.Container) corev1.Container {
	return corev1.Container{Name: share(c.Name), Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
}

func stripPodStatus(s *corev1.PodStatus) {
	s.HostIP, s.HostIPs, s.PodIP, s.PodIPs = "", nil, "", nil
	s.EphemeralContainerStatuses = nil
	for _, all := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range all {
			c := &all[i]
			all[i] = corev1.ContainerStatus{
				Name: share(c.Name), Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount, State: c.State,
				AllocatedResources: c.AllocatedResources, AllocatedResourcesStatus: c.AllocatedResourcesStatus, Resources: c.Resources,
			}
			if ended := all[i].State.Terminated; ended != nil {
				all[i].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: ended.Reason, FinishedAt: ended.FinishedAt}
			}
		}
	}
}

// StripNode is a cache transform: it drops what nothing of karve's reads of a Node, above all the
// images that it has.
func StripNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("a %T is no Node", o)
	}
	n.ManagedFields = nil
	n.Status.Images, n.Status.RuntimeHandlers, n.Status.Config, n.Status.Features = nil, nil, nil, nil
	n.Labels = shareMap(n.Labels)
	return n, nil
}

// share returns an equal string, the same for all that ask. It is freed when nobody has it.
func share(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func shareMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[share(key)] = share(value)
	}
	return out
}

// sharePodStrings shares what the pods of one workload, or of one node, have alike.
func sharePodStrings(p *corev1.Pod) {
	shareMetadata(&p.ObjectMeta)
	p.Spec.NodeSelector = shareMap(p.Spec.NodeSelector)
	s := &p.Spec
	for _, text := range []*string{&s.NodeName, &s.ServiceAccountName, &s.DeprecatedServiceAccount, &s.SchedulerName, &s.PriorityClassName} {
		*text = share(*text)
	}
	for i := range s.Tolerations {
		t := &s.Tolerations[i]
		t.Key, t.Value = share(t.Key), share(t.Value)
		t.Operator, t.Effect = corev1.TolerationOperator(share(string(t.Operator))), corev1.TaintEffect(share(string(t.Effect)))
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		c.Type, c.Status = corev1.PodConditionType(share(string(c.Type))), corev1.ConditionStatus(share(string(c.Status)))
		c.Reason, c.Message = share(c.Reason), share(c.Message)
	}
	p.Status.Phase, p.Status.QOSClass = corev1.PodPhase(share(string(p.Status.Phase))), corev1.PodQOSClass(share(string(p.Status.QOSClass)))
}

func shareMetadata(m *metav1.ObjectMeta) {
	m.Namespace, m.GenerateName, m.Labels = share(m.Namespace), share(m.GenerateName), shareMap(m.Labels)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.APIVersion, o.Kind, o.Name = share(o.APIVersion), share(o.Kind), share(o.Name)
	}
}
