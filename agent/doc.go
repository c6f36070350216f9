// SPDX-License-Identifier: Apache-2.0

// Package agent runs on every node and reports to the cluster what Azure is about to do to
// its VM: it reads the VM's Scheduled Events once a second and writes
// them on its Node, as kube.NoticeOf reads them. Controllers that watch Nodes act on it.
//
// It makes no decision, drains nothing, and acknowledges no event: an
// acknowledged event begins at once, and pods would lose the rest of their notice.
// It ignores events of other VMs, which Azure shows too. The zero
// Agent is not usable; see its fields.
package agent
