// SPDX-License-Identifier: Apache-2.0

// Package e2e tests karve from outside: the built command on a real control
// plane, launching VMs in the Azure emulator through the real SDK. What is checked is
// what a user or Azure's bill would show.
//
// Most tests share one of two environments, one test at a time in each, with NodePools of its own
// that it removes. With KARVE_RACE set, karve runs under the race detector in one of them, that of
// all but large clusters. Tests that start an environment of their own run beside those, one at a
// time. All need bin/karve-controlplane ("make controlplane") and fail without it. No test asserts
// how long anything takes.
package e2e
