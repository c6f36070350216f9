// SPDX-License-Identifier: Apache-2.0

// Package storage is the control plane's half of the Azure Disk CSI driver
// (disk.csi.azure.com) for a cluster whose disks hold no data: it provisions a
// zonal volume for a claim once the scheduler has chosen a node, marks volumes
// attached and detached as the attach controller asks, and deletes released volumes.
// The nodes' half, which reports a node's zone and attach limit, is the
// emulator's node agent.
//
// Its records are Kubernetes' own: no disk is created in Azure, and the volume
// handles merely look like those of Azure disks. Simulated kubelets mount nothing,
// so that a pod runs as soon as it is bound, while a real one would wait for its
// volume to be attached; detaching takes time, since other controllers wait for it.
//
// It does not support, and reports with a ProvisioningFailed event on the claim: access modes that
// need a shared disk, redundancy over zones (ZRS), binding before a pod is scheduled,
// and data sources. The zero Options are an error: a Client is required.
package storage
