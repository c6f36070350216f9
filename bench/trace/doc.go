// SPDX-License-Identifier: Apache-2.0

// Package trace replays a record of real VMs that came and went (Azure, 2017) as pods of a cluster
// in virtual time, and counts what a provisioner spends on their nodes, and how often it evicts
// them.
//
// What a tenant asked for at once becomes a Deployment for each VM size. Their rules about
// neighbours and disruption are drawn, as the record has none; the same seed draws the same. Both
// sides decide by the code of their own (packages karve and upstream), on a fleet of their own;
// kube-scheduler's filters judge every placement.
package trace
