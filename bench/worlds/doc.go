// SPDX-License-Identifier: Apache-2.0

// Package worlds tries the whole decision from outside: it draws small random clusters as
// Kubernetes objects (a World), shows them to state.Mirror as watch events, has schedule.Solve plan,
// and lets kube-scheduler's own filters judge the plan over the same objects (see bench/judge).
//
// No converter of package kube stands between the objects and the judge, so what karve misreads in
// an object is found as well as what it decides wrongly.
//
// A Verdict lists three kinds of failures: planned pods that the scheduler refuses, pods that are
// left out although a node would accept them (the rules that allow it are listed in rules.go), and
// plans that depend on the order of events.
package worlds
