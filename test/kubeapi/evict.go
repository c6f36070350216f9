// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

var created = answer{status: http.StatusCreated, body: []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)}

// evict deletes a pod if the PodDisruptionBudgets that select it allow that. The rules are those of
// k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
func (s *Server) evict(c *collection, q *request) (answer, error) {
	var e policyv1.Eviction
	if err := json.Unmarshal(q.body, &e); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	was := c.objects[q.key]
	if was == nil {
		return answer{}, apierrors.NewNotFound(q.gr(), q.key.Name)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(was.text, &pod); err != nil {
		return answer{}, err
	}
	options := e.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	ends := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
	if !ends {
		if err := s.spend(&pod, len(options.DryRun) > 0, q.process); err != nil {
			return answer{}, err
		}
	}
	if _, err := s.end(c, q, was, options); err != nil {
		return answer{}, err
	}
	return created, nil
}

// spend takes the eviction of a pod off its budget, or refuses it.
func (s *Server) spend(pod *corev1.Pod, dryRun bool, process string) error {
	budgets := s.store.collections[runtimeschema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}]
	var mine *entry
	var budget policyv1.PodDisruptionBudget
	for _, k := range sorted(budgets.objects, "") {
		var b policyv1.PodDisruptionBudget
		if err := json.Unmarshal(budgets.objects[k].text, &b); err != nil {
			return err
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if mine != nil {
			return unexplained("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		mine, budget = budgets.objects[k], b
	}
	if mine == nil {
		return nil
	}
	enough := budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
	always := budget.Spec.UnhealthyPodEvictionPolicy != nil && *budget.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	if !ready(pod) && (always || enough) {
		return nil
	}
	if budget.Status.ObservedGeneration < budget.Generation {
		return tooMany(budget.Name, "The disruption budget %s is still being processed by the server.", 10)
	}
	if budget.Status.DisruptionsAllowed < 1 {
		return tooMany(budget.Name, fmt.Sprintf("The disruption budget %%s needs %d healthy pods and has %d currently", budget.Status.DesiredHealthy, budget.Status.CurrentHealthy), 0)
	}
	if dryRun {
		return nil
	}
	budget.Status.DisruptionsAllowed--
	if budget.Status.DisruptedPods == nil {
		budget.Status.DisruptedPods = map[string]metav1.Time{}
	}
	budget.Status.DisruptedPods[pod.Name] = metav1.NewTime(s.Now())
	changed, err := decode(encoded(budget))
	if err != nil {
		return err
	}
	changed["kind"], changed["apiVersion"] = "PodDisruptionBudget", "policy/v1"
	_, err = s.keep(budgets, process, mine, changed)
	return err
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func tooMany(budget, message string, seconds int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(message, budget),
	})
	return err
}

// bind gives a pod its node, once.
func (s *Server) bind(c *collection, q *request) (answer, error) {
	var b corev1.Binding
	if err := json.Unmarshal(q.body, &b); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	was := c.objects[q.key]
	if was == nil {
		return answer{}, apierrors.NewNotFound(q.gr(), q.key.Name)
	}
	if b.UID != "" && b.UID != was.meta().GetUID() {
		return answer{}, conflict(q, "Precondition failed: UID")
	}
	o := was.meta().DeepCopy()
	spec := o.Object["spec"].(map[string]any)
	if name, _ := spec["nodeName"].(string); name != "" || o.GetDeletionTimestamp() != nil {
		return answer{}, conflict(q, fmt.Sprintf("pod %s is already assigned to node %q", q.key.Name, name))
	}
	spec["nodeName"] = b.Target.Name
	var pod corev1.Pod
	if err := json.Unmarshal(was.text, &pod); err != nil {
		return answer{}, err
	}
	at := metav1.NewTime(s.Now())
	conditions := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	for _, x := range pod.Status.Conditions {
		if x.Type != corev1.PodScheduled {
			conditions = append(conditions, x)
		}
	}
	pod.Status.Conditions = conditions
	status, err := decode(encoded(pod.Status))
	if err != nil {
		return answer{}, err
	}
	o.Object["status"] = status
	if _, err := s.keep(c, q.process, was, o.Object); err != nil {
		return answer{}, err
	}
	return created, nil
}
