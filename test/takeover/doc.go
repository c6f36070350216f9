// SPDX-License-Identifier: Apache-2.0

// Package takeover holds, by its tests, that karve can take over a cluster from
// Karpenter's provider for Azure: what that one left in Kubernetes and in Azure, in its
// own formats (testdata), is looked at by karve's controllers for an hour of virtual
// time, and every write of theirs is on record.
//
// It refuses to be imported: there is nothing in it but tests.
package takeover
