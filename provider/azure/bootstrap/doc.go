// SPDX-License-Identifier: Apache-2.0

// Package bootstrap writes the custom data with which a VM that starts from an AKS image becomes
// a node: one NodeConfig, in either of the two contracts that those images read.
//
// The environment contract is a script that exports variables and starts the provisioning scripts
// of the image. The structured contract is a document for the node controller of the image, which
// sets those variables itself. AgentBaker keeps the meaning of the document stable, whereas the
// variables change with the image's scripts.
//
// The same NodeConfig always gives the same bytes. Values are encoded, never pasted into a language
// that could interpret them. A value that the image, its scripts or the kubelet would fail on is
// an error here, before a VM is launched. The package sends no request and reads no clock, and
// does not know which VM sizes are available. The zero NodeConfig is an error: it names no cluster.
//
// Facts about both contracts come from the public repository Azure/AgentBaker:
// parts/linux/cloud-init/artifacts (cse_cmd.sh, cse_start.sh, cse_config.sh),
// parts/common/components.json, and aks-node-controller (proto, parser, pkg).
package bootstrap
