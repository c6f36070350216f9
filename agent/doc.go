// SPDX-License-Identifier: Apache-2.0

// Package agent runs on every node and tells the cluster what Azure is about to do to
// the machine below: it reads the machine's Scheduled Events once a second and writes
// them on its Node, as kube.NoticeOf reads them. Whoever watches Nodes acts on it.
//
// It refuses to decide anything, drains nothing, and acknowledges no event: an
// acknowledged event begins at once, and pods would lose the rest of their notice.
// Events of other machines, which Azure shows too, are none of its business. The zero
// Agent is not usable; see its fields.
package agent
