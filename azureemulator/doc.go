// SPDX-License-Identifier: Apache-2.0

// Package azureemulator is an Azure that fits in a process. It serves, over HTTPS
// with a certificate authority of its own, the part of Azure Resource Manager
// that provisioning Kubernetes nodes needs: a token endpoint, VM sizes and
// their quota, VMs with genuine asynchronous operations, network
// interfaces with addresses taken from a subnet, disks and their encryption sets,
// extensions, machines of AKS agent pools, images of community and shared galleries,
// and retail prices. The Azure SDK for Go talks to it unmodified through
// cloud.Configuration. New makes one without a listener, which tests call in process and in
// virtual time.
//
// It behaves like the real thing where a client can tell: quota is enforced,
// subnets fill up, sizes run out, spot VMs are evicted with notice,
// operations take time and fail late, and throttling comes with its headers.
// Whatever goes wrong in it was asked for, through Options, the Go methods of
// Server, or the JSON endpoint under /_emulator/.
//
// The endpoint under /_emulator/ asks for no token and speaks JSON:
//
//	GET    state | ledger | invariants
//	GET    stockouts    POST stockouts {size, zone, priority, mode, left, times, everySeconds, seed}    DELETE stockouts?size=&zone=&priority=
//	GET    faults       POST faults {method, path, times, skip, status, code, message, retryAfterSeconds, flat, lose}    DELETE faults
//	GET    faults/catalogue    POST faults/named {name, target, times, seed}    (docs/faults.md lists them)
//	PUT    quota {name, limit} | throttling {enabled} | timescale {scale}
//	POST   images {definition, version} | subnets {resourceGroup, vnet, name, prefix} | tokens/revoke
//	POST   machines/NAME/drift {reason}
//	POST   vms/NAME/evict {noticeSeconds}
//	GET    vms/NAME/scheduledevents    POST vms/NAME/scheduledevents {kind, noticeSeconds}    DELETE vms/NAME/scheduledevents
//
// and vms/NAME/imds is the metadata service of a VM, for an agent on it; it issues tokens
// to the VM's identities, too.
//
// For example
//
//	curl --cacert ca.pem $URL/_emulator/stockouts -d '{"size":"Standard_D*s_v5","zone":"1"}'
//
// Where facts about Azure leave a choice, it takes the one harder for clients:
// a deallocated or failed VM keeps its quota until it is deleted, and an
// interface described inline gets a name that can only be read from the VM.
//
// It refuses to be a general Azure: an unknown resource type is answered 404
// with InvalidResourceType, and a property it cannot honour by changing
// something real is echoed, not acted on. It keeps nothing on disk but its
// certificate, federated token and connection file.
//
// The zero Options give an emulator of one AKS cluster in eastus, without
// latency, on a free port of the loopback interface.
package azureemulator
