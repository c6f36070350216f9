// Package e2e tests karve from outside: the built command on a real control
// plane, buying from the Azure emulator through the real SDK. What is checked is
// what a user or Azure's bill would show.
//
// The tests share one running system, each with NodePools of its own that it
// removes. They need bin/karve-controlplane ("make controlplane") and fail
// without it. No test asserts how long anything takes.
package e2e
