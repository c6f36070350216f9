// SPDX-License-Identifier: Apache-2.0

// Package takeover tests that karve can take over a cluster from
// Karpenter's provider for Azure: karve's controllers reconcile the objects that the provider left
// in Kubernetes and in Azure, in its own formats (testdata), for an hour of virtual
// time, and every write of theirs is recorded.
//
// The package contains only tests.
package takeover
