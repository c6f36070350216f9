// Package emulator is an Azure that fits in a process. It serves, over HTTPS
// with a certificate authority of its own, the part of Azure Resource Manager
// that provisioning Kubernetes nodes needs: a token endpoint, VM sizes and
// their quota, virtual machines with genuine asynchronous operations, network
// interfaces with addresses taken from a subnet, disks, extensions, community
// gallery images and retail prices. The Azure SDK for Go talks to it unmodified
// through cloud.Configuration.
//
// It behaves like the real thing where a client can tell: quota is enforced,
// subnets fill up, sizes run out, spot machines are evicted with notice,
// operations take time and fail late, and throttling comes with its headers.
// Whatever goes wrong in it was asked for, through Options, the Go methods of
// Server, or the JSON endpoint under /_emulator/.
//
// It refuses to be a general Azure: an unknown resource type is answered 404
// with InvalidResourceType, and a property it cannot honour by changing
// something real is echoed, not acted on. It keeps nothing on disk but its
// certificate, federated token and connection file.
//
// The zero Options give an emulator of one AKS cluster in eastus, without
// latency, on a free port of the loopback interface.
package emulator
