// SPDX-License-Identifier: Apache-2.0

// Package azure is the provider for AKS. It reads the VM sizes, the quota and the images of a
// region, and it creates, lists and deletes virtual machines through the Azure SDK. Either Azure
// Compute or AKS creates the virtual machines; see backend.
//
// The package makes no scheduling decision: Launch tries the offerings of a claim in the order
// given and reports each one that Azure refused. Nothing that it keeps in memory is lost for
// good by a restart. The name of every resource follows from the NodeClaim's UID, a creation is
// sent with If-None-Match, and the reason why a virtual machine failed can be read from Azure.
// Stock-outs, quota reserved for launches in flight and the last good lists are kept in memory;
// they only make the next decision better.
//
// Zones are the values of topology.kubernetes.io/zone on AKS: "eastus-1" for a zone and "0" for
// a virtual machine that Azure places anywhere in the region. The zero Provider is not usable;
// see New.
package azure
