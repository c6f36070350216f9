// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"strings"
	"testing"
)

func TestNodePoolAcceptsAndRefuses(t *testing.T) {
	gate := openGate(t, "NodePool", "v1")
	for _, tc := range []struct {
		name, spec string
		// refused is part of what the user is told; empty means accepted.
		refused string
	}{
		{"general purpose", `
template:
  metadata:
    labels: {team: web, kubernetes.azure.com/mode: user}
  spec:
    nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
    expireAfter: 720h
    requirements:
    - {key: karpenter.azure.com/sku-family, operator: In, values: [D, E]}
    - {key: karpenter.azure.com/sku-version, operator: Gt, values: ["3"]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
limits: {cpu: 200, memory: 800Gi}
disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s}
`, ""},
		{"GPU", `
template:
  spec:
    nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: gpu}
    taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
    requirements:
    - {key: karpenter.azure.com/sku-gpu-count, operator: Gte, values: ["1"]}
    - {key: karpenter.azure.com/sku-gpu-manufacturer, operator: In, values: [nvidia]}
limits: {nvidia.com/gpu: 64}
`, ""},
		{"budgets", pool("") + `
disruption:
  consolidateAfter: Never
  budgets:
  - {nodes: 20%}
  - {nodes: "0", schedule: "0 9 * * mon-fri", duration: 8h, reasons: [Drifted, Underutilized]}
`, ""},

		{"no node class", "template: {spec: {requirements: []}}", "spec.template.spec.nodeClassRef: Required value"},
		{"empty node class name", "template: {spec: {requirements: [], nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: ''}}}", "name may not be empty"},
		{"schedule without duration", pool("") + "\ndisruption: {consolidateAfter: 0s, budgets: [{nodes: '0', schedule: '@daily'}]}", "'schedule' must be set with 'duration'"},
		{"budget over 100 percent", pool("") + "\ndisruption: {consolidateAfter: 0s, budgets: [{nodes: 101%}]}", "nodes"},
		{"budget for an unknown reason", pool("") + "\ndisruption: {consolidateAfter: 0s, budgets: [{nodes: '1', reasons: [Expired]}]}", `supported values: "Underutilized", "Empty", "Drifted"`},
		{"unknown consolidation policy", pool("") + "\ndisruption: {consolidateAfter: 0s, consolidationPolicy: Always}", "consolidationPolicy"},
		{"limit that is no quantity", pool("") + "\nlimits: {cpu: lots}", "spec.limits"},
		{"lifetime that no client can read", pool("") + "\ndisruption: {consolidateAfter: 9999999h}", "a length of time may be at most 292 years"},
		{"window that no client can read", pool("") + "\ndisruption: {consolidateAfter: Never, budgets: [{nodes: '0', schedule: '@daily', duration: 9999999h}]}", "a length of time may be at most 292 years"},
		{"limit in scientific notation", pool("") + "\nlimits: {cpu: 1e3, memory: 1e12}", ""},
		{"limit with an exponent that no client can read", pool("") + "\nlimits: {cpu: '1e.5'}", "spec.limits"},
		{"weight over 100", pool("") + "\nweight: 101", "spec.weight"},

		{"In without values", pool("{key: karpenter.azure.com/sku-family, operator: In, values: []}"), "requirements with operator 'In' must have a value defined"},
		{"Gt with two values", pool("{key: karpenter.azure.com/sku-version, operator: Gt, values: ['3', '4']}"), "must have a single positive integer value"},
		{"Gt with a negative value", pool("{key: karpenter.azure.com/sku-version, operator: Gt, values: ['-1']}"), "must have a single positive integer value"},
		{"Gt with a word", pool("{key: karpenter.azure.com/sku-version, operator: Gt, values: [three]}"), "spec.template.spec.requirements"},
		{"unknown operator", pool("{key: karpenter.azure.com/sku-family, operator: Is, values: [D]}"), "operator"},
		{"key with two slashes", pool("{key: a/b/c, operator: Exists}"), "key"},

		{"misspelt key of the provider", pool("{key: karpenter.azure.com/sku-familly, operator: In, values: [D]}"),
			"label karpenter.azure.com/sku-familly cannot be used here: of the domain karpenter.azure.com only these can: aksnodeclass, sku-name, sku-family"},
		{"internal key of the provider", pool("{key: karpenter.azure.com/sku-hyperv-generation, operator: In, values: ['2']}"),
			"label karpenter.azure.com/sku-hyperv-generation cannot be used here"},
		{"key AKS keeps for itself", pool("{key: kubernetes.azure.com/agentpool, operator: In, values: [np]}"),
			"label kubernetes.azure.com/agentpool cannot be used here: of the domain kubernetes.azure.com only these can: mode"},
		{"legacy key", pool("{key: agentpool, operator: Exists}"), "label agentpool cannot be used here: AKS sets it itself"},
		{"key of Karpenter", pool("{key: karpenter.sh/nodepool, operator: Exists}"), `label "karpenter.sh/nodepool" is restricted`},
		{"host name", pool("{key: kubernetes.io/hostname, operator: Exists}"), `label "kubernetes.io/hostname" is restricted`},
		{"key of the user's own", pool("{key: example.com/rack, operator: In, values: [r1]}"), ""},
		{"key without a domain", pool("{key: team, operator: Exists}"), ""},

		{"labels of the user's own", labelled("team: web, example.com/tier: front, kubernetes.azure.com/ebpf-dataplane: cilium"), ""},
		{"misspelt labels", labelled("karpenter.azure.com/sku-familly: D, karpenter.azure.com/sku-family: D"),
			"a label under karpenter.azure.com cannot be used here: of the domain karpenter.azure.com only these can: aksnodeclass, sku-name"},
		{"label AKS keeps for itself", labelled("kubernetes.azure.com/storagetier: Premium"), "a label under kubernetes.azure.com cannot be used here"},
		{"legacy label", labelled("accelerator: nvidia"), "each of the labels agentpool, storageprofile, storagetier, accelerator cannot be used here: AKS sets it itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gate.expect(t, manifest("karpenter.sh/v1", "NodePool", tc.spec), tc.refused)
		})
	}
}

// Every key on the lists of the provider must pass, in each place it can be used.
func TestProviderLabelsAreAccepted(t *testing.T) {
	nodePool, nodeClaim := openGate(t, "NodePool", "v1"), openGate(t, "NodeClaim", "v1")
	for _, key := range strings.Fields(`
		karpenter.azure.com/aksnodeclass karpenter.azure.com/sku-name karpenter.azure.com/sku-family
		karpenter.azure.com/sku-series karpenter.azure.com/sku-version karpenter.azure.com/sku-cpu
		karpenter.azure.com/sku-memory karpenter.azure.com/sku-networking-accelerated
		karpenter.azure.com/sku-storage-premium-capable karpenter.azure.com/sku-storage-ultra-ssd
		karpenter.azure.com/sku-storage-ephemeralos-maxsize karpenter.azure.com/sku-gpu-name
		karpenter.azure.com/sku-gpu-manufacturer karpenter.azure.com/sku-gpu-count karpenter.azure.com/placement-scope
		kubernetes.azure.com/mode kubernetes.azure.com/scalesetpriority kubernetes.azure.com/priority
		kubernetes.azure.com/fips_enabled kubernetes.azure.com/os-sku kubernetes.azure.com/cluster
		kubernetes.azure.com/sku-cpu kubernetes.azure.com/sku-memory kubernetes.azure.com/ebpf-dataplane
		kubernetes.azure.com/ebpf-host-routing kubernetes.azure.com/network-policy kubernetes.azure.com/hostedvm`) {
		t.Run(key, func(t *testing.T) {
			requirement := "{key: " + key + ", operator: Exists}"
			nodePool.expect(t, manifest("karpenter.sh/v1", "NodePool", pool(requirement)), "")
			nodePool.expect(t, manifest("karpenter.sh/v1", "NodePool", labelled(key+": x")), "")
			nodeClaim.expect(t, claim(requirement), "")
		})
	}
}

func TestNodeClaimRefusesUnknownProviderLabels(t *testing.T) {
	gate := openGate(t, "NodeClaim", "v1")
	gate.expect(t, claim("{key: karpenter.azure.com/sku-familly, operator: Exists}"), "label karpenter.azure.com/sku-familly cannot be used here")
	gate.expect(t, claim("{key: storageprofile, operator: Exists}"), "label storageprofile cannot be used here")
}

// pool is the spec of a minimal NodePool with one requirement, or none.
func pool(requirement string) string {
	return "template: {spec: {" + classRef + ", requirements: [" + requirement + "]}}"
}

func labelled(labels string) string {
	return "template: {metadata: {labels: {" + labels + "}}, spec: {" + classRef + ", requirements: []}}"
}

func claim(requirement string) string {
	return manifest("karpenter.sh/v1", "NodeClaim", classRef+"\nrequirements: ["+requirement+"]")
}

const classRef = "nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}"
