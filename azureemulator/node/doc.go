// SPDX-License-Identifier: Apache-2.0

// Package node is what runs on, and what watches over, the VMs of the
// Azure emulator: an OS that does what an AKS node does with its customData,
// and a CloudController that does what AKS's cloud-controller-manager does with
// the Nodes that result.
//
// The OS takes nothing from the emulator but the VM's own facts and its
// customData: server, certificate authority, token, labels, taints and
// reservations all come from the bootstrap script, which is really run (in an
// interpreter that can touch nothing). A script that would leave a real VM
// outside the cluster leaves this one outside too; OS.Console says why.
//
// VMs that AKS made in an agent pool bring no customData. Those it bootstraps
// itself, into the Cluster it was told of, as the VM's profile says.
//
// It runs no container. Nodes carry the annotation that makes kwok keep them
// ready and run their pods, until the VM goes away. Nor does it read a
// kubelet configuration file: a payload that insists on one is refused in words.
//
// The zero OS is not usable; NewOS with zero Options is.
package node
