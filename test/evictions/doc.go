// SPDX-License-Identifier: Apache-2.0

// Package evictions has Azure take back many spot VMs of a cluster at once, in virtual
// time, and measures what their pods get and how soon replacements are launched for them.
//
// Everything that acts is the real thing: an agent on each VM that asks its metadata
// service, karve's controllers, its Azure provider, and an emulated Azure with all its
// limits. What stands in for Kubernetes is an API in memory, a kubelet that gives pods
// their grace and a scheduler that knows one pod per node. Writes, watches and requests take
// their time; computing takes none, as clocks stand still in a testing/synctest bubble,
// in which Run must be called. The zero Options work.
package evictions
