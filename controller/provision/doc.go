// SPDX-License-Identifier: Apache-2.0

// Package provision launches nodes for pods that fit nowhere: it gathers the pods into batches,
// calls schedule.Solve on the mirror's Snapshot, creates the plan's NodeClaims and publishes
// events on the pods.
//
// It does not talk to a cloud: the lifecycle controller launches the instances. All exported
// fields of Provisioner are required except where said.
package provision
