// SPDX-License-Identifier: Apache-2.0

// Package bootstrap tells a machine made from an AKS image how to become a node:
// one Node, written in either of the two contracts that those images read.
//
// The environment contract is a script that exports variables and starts the
// provisioning scripts of the image. The structured contract is a document for the
// node controller of the image, which makes those variables itself; what it means
// is kept stable by its makers, where the variables follow the image's scripts.
//
// The same Node always gives the same bytes. Values are encoded, never pasted into
// a language that could understand them otherwise, and what the image, its scripts
// or the kubelet would choke on is an error here, before a machine is bought. The
// package asks no cloud and no clock, and does not know which machines are on sale.
// The zero Node is refused: it knows no cluster.
//
// Facts about both contracts come from the public repository Azure/AgentBaker:
// parts/linux/cloud-init/artifacts (cse_cmd.sh, cse_start.sh, cse_config.sh),
// parts/common/components.json, and aks-node-controller (proto, parser, pkg).
package bootstrap
