// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is an API server of Kubernetes in memory, for tests of whole processes in virtual
// time. Clients of client-go reach it through a transport; it opens no socket and starts no goroutine.
//
// It serves what controllers and kubelets depend on as the real one does: one resource version for
// all kinds, conflicts, generations, status subresources, finalizers, grace periods of pods,
// preconditions, watches from a version with bookmarks, expired versions, paged lists, lists as
// streams, evictions that PodDisruptionBudgets refuse, bindings, discovery, and custom resources with
// the defaults and the validation of their schemas (those by CEL excepted). It runs no controller:
// owners are not collected and no budget's status is computed.
//
// What a Fault lists can go wrong on the way. The zero Server is not usable; see New.
package kubeapi
