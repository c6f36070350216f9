// SPDX-License-Identifier: Apache-2.0

// Package audit judges from outside whether karve keeps its promises. An Auditor is fed with what
// happens, in order: objects of Kubernetes as they are created, changed and deleted, lists of what
// the cloud has, and requests where they can be seen. It answers with Violations: which invariant
// (docs/audit.md lists them) does not hold, for which object, since when, in words.
//
// It shares no code with what it judges: it reads labels, taints, annotations, conditions and tags
// as anybody can, counts limits and budgets and reads schedules by itself. It decides and changes
// nothing, starts no goroutine and has no clock: time is what its caller says it is.
//
// What the Auditor sees first did not always happen first. Changes of one kind of object come in the
// order in which they were made, but those of two kinds may pass each other by
// Settings.ObjectLag, and a list of the cloud may be older than its answer by Settings.CloudLag.
// What depends on two sources is therefore judged once both must have been seen, and by what is the
// most favourable to karve of all that may have been so at the time. With negative lags, as in a
// simulation, judgement is immediate and exact.
//
// The zero Settings work. An Auditor is not safe for concurrent use.
package audit
