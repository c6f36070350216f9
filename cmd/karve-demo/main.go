// SPDX-License-Identifier: Apache-2.0

// Command karve-demo runs the whole system on this machine: Kubernetes, an emulated Azure, and
// karve, which it starts as a user would, by its binary.
//
// It is apart from karve, because what runs in a cluster must not carry an emulator of the cloud.
// Here flags become the options of local and of the scenario; nothing is decided here.
package main

import "github.com/karve-dev/karve/cmd/internal/command"

func main() { command.Main(demoCommand()) }
