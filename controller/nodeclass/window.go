// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ConfigMap that AKS writes its next maintenance of node images to.
const (
	WindowConfigMap = "upcoming-maintenance-window"
	windowStart     = "aksManagedNodeOSUpgradeSchedule-start"
	windowEnd       = "aksManagedNodeOSUpgradeSchedule-end"
)

// MaintenanceWindow is a Window that AKS plans. It is always open where there is no plan:
// no ConfigMap, or one without times.
type MaintenanceWindow struct {
	// Reader reads the ConfigMap, past any cache: karve may read this one only. Required.
	Reader client.Reader
	// Namespace is karve's own. Without one there is no plan.
	Namespace string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

var _ Window = MaintenanceWindow{}

// Open reads the plan anew.
func (w MaintenanceWindow) Open(ctx context.Context) (bool, time.Time, error) {
	if w.Namespace == "" {
		return true, time.Time{}, nil
	}
	plan := &corev1.ConfigMap{}
	err := w.Reader.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: WindowConfigMap}, plan)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return true, time.Time{}, nil
		}
		return false, time.Time{}, fmt.Errorf("reading ConfigMap %s/%s: %w", w.Namespace, WindowConfigMap, err)
	}
	from, to := plan.Data[windowStart], plan.Data[windowEnd]
	if from == "" && to == "" {
		return true, time.Time{}, nil
	}
	return w.within(from, to)
}

// within reports whether it is between two times, the first of them included. A window
// that has ended does not determine the next one.
func (w MaintenanceWindow) within(from, to string) (bool, time.Time, error) {
	start, err := w.parseTime(windowStart, from)
	if err != nil {
		return false, time.Time{}, err
	}
	end, err := w.parseTime(windowEnd, to)
	if err != nil {
		return false, time.Time{}, err
	}
	now := time.Now()
	if w.Now != nil {
		now = w.Now()
	}
	switch {
	case now.Before(start):
		return false, start, nil
	case now.Before(end):
		return true, time.Time{}, nil
	}
	return false, time.Time{}, nil
}

func (w MaintenanceWindow) parseTime(key, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("ConfigMap %s/%s: %s is %q, which is no time such as 2026-11-22T02:00:00Z: correct it or remove both times", w.Namespace, WindowConfigMap, key, text)
	}
	return t, nil
}
