// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Condition reads one status condition of a cluster-scoped object. A condition
// that was never set has an empty Status.
func (e *Environment) Condition(ctx context.Context, apiVersion, kind, name, condition string) (metav1.Condition, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	if err := e.client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return metav1.Condition{}, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	var fields struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &fields); err != nil {
		return metav1.Condition{}, fmt.Errorf("reading the conditions of %s %s: %w", kind, name, err)
	}
	for _, have := range fields.Status.Conditions {
		if have.Type == condition {
			return have, nil
		}
	}
	return metav1.Condition{Type: condition}, nil
}

// WaitCondition waits until a condition has the status ("True", "False",
// "Unknown"). The error contains the status it had instead.
func (e *Environment) WaitCondition(ctx context.Context, apiVersion, kind, name, condition, status string, limit time.Duration) error {
	what := fmt.Sprintf("%s %s has condition %s %s", kind, name, condition, status)
	return Until(ctx, limit, what, func(ctx context.Context) (bool, error) {
		have, err := e.Condition(ctx, apiVersion, kind, name, condition)
		if err != nil {
			return false, err
		}
		if string(have.Status) == status {
			return true, nil
		}
		return false, fmt.Errorf("it is %q, %s: %s", have.Status, have.Reason, have.Message)
	})
}
