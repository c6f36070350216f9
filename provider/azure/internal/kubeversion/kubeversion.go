// SPDX-License-Identifier: Apache-2.0

// Package kubeversion reads the Kubernetes versions that node classes and nodes name.
package kubeversion

import (
	"strconv"
	"strings"

	versionutil "k8s.io/apimachinery/pkg/util/version"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Of returns the version that new nodes of the class run; empty while unknown.
func Of(class *v1beta1.AKSNodeClass) string {
	if class.Status.KubernetesVersion == nil {
		return ""
	}
	return strings.TrimPrefix(*class.Status.KubernetesVersion, "v")
}

// Minor returns the minor version in "1.36.3"; zero when there is none.
func Minor(version string) int {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

// Older reports whether had is older than want; false for malformed versions.
func Older(had, want string) bool {
	a, errA := versionutil.ParseGeneric(had)
	b, errB := versionutil.ParseGeneric(want)
	return errA == nil && errB == nil && a.LessThan(b)
}
