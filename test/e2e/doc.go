// SPDX-License-Identifier: Apache-2.0

// Package e2e tests karve from outside: the built command on a real control
// plane, buying from the Azure emulator through the real SDK. What is checked is
// what a user or Azure's bill would show.
//
// The tests share two running systems side by side, one at a time in each, with
// NodePools of its own that it removes. With KARVE_RACE set, karve runs under the race
// detector in one of them, that of all but large clusters. They need
// bin/karve-controlplane ("make controlplane") and fail without it. No test asserts how
// long anything takes, but for the one that holds rule BUDGET-1 to its five minutes.
package e2e
