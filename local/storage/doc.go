// SPDX-License-Identifier: Apache-2.0

// Package storage is the control plane's half of the Azure Disk CSI driver
// (disk.csi.azure.com) for a cluster whose disks hold no data: it provisions a
// zonal volume for a claim once the scheduler has chosen a node, marks volumes
// attached and detached as the attach controller asks, and deletes what was
// released. The nodes' half, which reports a node's zone and attach limit, is the
// emulator's node agent.
//
// Its account is Kubernetes' own: no disk is ordered from Azure, and the volume
// handles merely look like those of Azure disks. Simulated kubelets mount nothing,
// so that a pod runs as soon as it is bound, while a real one would wait for its
// volume to be attached; detaching is what others wait for, and takes its time.
//
// It refuses, with a ProvisioningFailed event on the claim: access modes that need
// a shared disk, redundancy over zones (ZRS), binding before a pod is scheduled,
// and data sources. The zero Options are refused: a Client is required.
package storage
