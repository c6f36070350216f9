// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"slices"
	"strings"
	"testing"
)

// room is a part of the house and the parts it may know. A package belongs to
// the most specific room that holds its folder.
type room struct {
	Folder string
	// Knows are the folders of ours that its packages may import besides itself.
	Knows []string
	// StandardOnly forbids everything outside the standard library and Knows.
	StandardOnly bool
	Why          string
}

// The house, inside out.
var rooms = []room{
	{Folder: "engine", StandardOnly: true,
		Why: "the engine is pure: a decision must run alike in the controller, the demo, the simulator and a test"},
	{Folder: "api",
		Why: "API types are a contract with users: they know no part of karve"},
	{Folder: "provider", Knows: []string{"engine"},
		Why: "the port is what the engine and a cloud agree on"},
	{Folder: "provider/azure", Knows: []string{"engine", "provider", "api", "provider/azure/vmsize", "provider/azure/ratelimit", "internal/panics"},
		Why: "the Azure provider speaks to Azure, never to a particular Azure"},
	{Folder: "provider/azure/ratelimit", Knows: []string{"provider"},
		Why: "rate limits count requests, whatever they are about"},
	{Folder: "provider/azure/internal/armtext", StandardOnly: true,
		Why: "optional strings of the SDK are plain pointers"},
	{Folder: "provider/azure/internal/ctxlock", StandardOnly: true,
		Why: "a lock knows nothing of what it guards"},
	{Folder: "provider/azure/internal/kubeversion", Knows: []string{"api"},
		Why: "reading a version needs nothing but the text"},
	{Folder: "provider/azure/internal/armerr", Knows: []string{"engine", "provider/azure/ratelimit"},
		Why: "what an error means depends on the error alone"},
	{Folder: "provider/azure/internal/cached", Knows: []string{"internal/panics", "provider/azure/internal/armerr"},
		Why: "a cache knows nothing of what it keeps"},
	{Folder: "provider/azure/internal/armlist", Knows: []string{"provider", "provider/azure/internal/armerr", "provider/azure/internal/ctxlock"},
		Why: "a list knows nothing of what its rows are for"},
	{Folder: "provider/azure/internal/token", Knows: []string{"provider/azure/internal/cached"},
		Why: "tokens are requested alike whatever they are for"},
	{Folder: "provider/azure/internal/sku", Knows: []string{"provider/azure/vmsize", "provider/azure/internal/armlist", "provider/azure/internal/armtext"},
		Why: "a VM size is the same whatever it costs and whatever is left of it"},
	{Folder: "provider/azure/internal/pricing", Knows: []string{"api", "engine", "provider/azure", "provider/azure/internal/armerr", "provider/azure/internal/cached", "provider/azure/internal/sku"},
		Why: "a price depends on the size and the list, not on what is launched"},
	{Folder: "provider/azure/internal/network", Knows: []string{"provider/azure/internal/armerr", "provider/azure/internal/armlist", "provider/azure/internal/armtext", "provider/azure/internal/cached"},
		Why: "a network is read alike whatever joins it"},
	{Folder: "provider/azure/internal/image", Knows: []string{"api", "internal/panics", "provider/azure/internal/armerr", "provider/azure/internal/armlist", "provider/azure/internal/armtext", "provider/azure/internal/cached", "provider/azure/internal/kubeversion", "provider/azure/internal/sku"},
		Why: "which image a class wants does not depend on what is launched"},
	{Folder: "provider/azure/internal/quota", Knows: []string{"engine", "provider", "provider/azure/internal/armerr", "provider/azure/internal/armlist", "provider/azure/internal/armtext", "provider/azure/internal/cached", "provider/azure/internal/network", "provider/azure/internal/sku"},
		Why: "quota is counted alike for every launch"},
	{Folder: "provider/azure/internal/stock", Knows: []string{"engine", "provider/azure/internal/armerr", "provider/azure/internal/sku"},
		Why: "it remembers refusals, and sends no request"},
	{Folder: "provider/azure/internal/aksmachine", Knows: []string{"api", "internal/panics", "provider", "provider/azure", "provider/azure/internal/armerr", "provider/azure/internal/armtext", "provider/azure/internal/cached", "provider/azure/internal/sku"},
		Why: "it speaks to the AKS machine API, and decides nothing"},
	{Folder: "provider/azure/vmsize",
		Why: "reading a size's name needs nothing but the name"},
	{Folder: "azureemulator", Knows: []string{"provider/azure/vmsize"},
		Why: "an emulator that shared code with the provider would share its mistakes, and tests would agree with both"},
	{Folder: "test/faults", Knows: []string{"test/scarcity", "engine", "provider", "provider/azure", "azureemulator", "api"},
		Why: "it lets the real provider launch in an emulated Azure with faults; only tests and benchmarks need it"},
	{Folder: "test/scarcity", Knows: []string{"engine", "provider", "provider/azure", "azureemulator", "api"},
		Why: "it lets the real provider launch in an emulated Azure; only tests and benchmarks need it"},
	{Folder: "kube", Knows: []string{"engine", "provider", "api"},
		Why: "kube converts API objects and remembers nothing of the cluster: package state does that with its conversions"},
	{Folder: "kube/state", Knows: []string{"engine", "kube", "internal/panics"},
		Why: "the mirror keeps a snapshot current with kube's conversions; it decides nothing"},
	{Folder: "test/clusterlife", Knows: []string{"engine", "provider", "kube", "kube/state", "controller", "api"},
		Why: "the simulator drives the real parts"},
	{Folder: "controller", Knows: []string{"engine", "provider", "kube", "kube/state", "api", "internal/panics"},
		Why: "controllers read, decide, act and record"},
	{Folder: "controller/nodeclass", Knows: []string{"controller", "engine", "provider", "provider/azure", "kube", "kube/state", "api", "internal/panics"},
		Why: "it is Azure's own controller: it tells of an AKSNodeClass what only Azure knows"},
	{Folder: "agent", Knows: []string{"kube", "internal/panics"},
		Why: "an agent tells what its machine hears, in the words that kube reads; it decides nothing"},
	{Folder: "audit",
		Why: "an auditor that shared code with what it judges would share its mistakes, and never find them"},
	{Folder: "test/evictions", Knows: []string{"agent", "engine", "provider", "provider/azure", "azureemulator", "kube", "kube/state", "controller", "api"},
		Why: "a storm passes over everything that acts, put together as a command would"},
	{Folder: "test/takeover", Knows: []string{"engine", "provider", "provider/azure", "azureemulator", "kube", "kube/state", "controller", "controller/nodeclass", "api"},
		Why: "whoever takes a cluster over brings everything that acts, put together as a command would"},
	{Folder: "test/disasters", Knows: []string{"engine", "provider", "kube", "kube/state", "controller", "api"},
		Why: "trouble of Kubernetes passes over the controllers, and what they made of the cloud is counted"},
	{Folder: "test/soak", Knows: []string{"test/scarcity", "engine", "provider", "provider/azure", "azureemulator", "kube", "kube/state", "controller", "controller/nodeclass", "api"},
		Why: "whatever lives as long as the process is searched for what it should have forgotten"},
	{Folder: "test/kubeapi", Knows: []string{"api"},
		Why: "an API server that shared code with the controllers would share their mistakes"},
	{Folder: "test/simulation", Knows: []string{"audit", "test/kubeapi", "test/scarcity", "engine", "provider", "provider/azure", "azureemulator", "kube", "kube/state", "controller", "controller/nodeclass", "api"},
		Why: "it runs all of karve, put together as its command does"},
	{Folder: "test/report", Knows: []string{"test/scarcity", "test/faults", "test/evictions", "azureemulator"},
		Why: "it runs the other tests of the provider and adds nothing but a table"},
	{Folder: "local", Knows: []string{"api", "azureemulator"},
		Why: "the demo starts karve as a user would, through its command: it must not reach into it"},
	{Folder: "cmd/karve", Knows: []string{"agent", "api", "audit", "cmd/internal", "controller", "controller/nodeclass", "engine", "internal/panics", "kube", "kube/state", "provider", "provider/azure"},
		Why: "it wires together what runs in a cluster; an emulator of the cloud is no part of that"},
	{Folder: "cmd/karve-demo", Knows: []string{"cmd/internal", "local", "azureemulator"},
		Why: "it starts karve by its binary, as a user would: it must not reach into it"},
	{Folder: "cmd/internal",
		Why: "what the commands share knows of none of them"},
	{Folder: "test/e2e", Knows: []string{"test/kubeapi", "local", "api", "azureemulator"},
		Why: "end-to-end tests see what a user sees, and hold the API server of simulations to the real one"},
	{Folder: "hack", Knows: []string{"engine"},
		Why: "tools of developers ask the engine; no part of karve knows them"},
	{Folder: "internal/panics",
		Why: "whatever starts a goroutine uses it, so it knows of nothing that is run"},
	{Folder: "test/arch", StandardOnly: true,
		Why: "the rules of the house depend on nobody"},
}

// kubernetes are the module prefixes that only the rooms below may import: they
// change shape often, and a decision must not know where its inputs came from.
var kubernetes = []string{"k8s.io/", "sigs.k8s.io/"}

// speaksKubernetes lists the rooms that may import Kubernetes modules.
var speaksKubernetes = []string{"agent", "api", "audit", "kube", "controller", "cmd/karve", "test/takeover", "test/soak", "test/evictions", "test/disasters", "test/kubeapi", "test/simulation", "local", "test/e2e", "provider/azure", "azureemulator/node", "test/clusterlife"}

func TestImportsPointInward(t *testing.T) {
	for _, file := range sources(t) {
		home, ok := roomOf(file.Dir)
		if !ok {
			t.Errorf("%s lies in no room of the house: add its folder to rooms in test/arch/imports_test.go, with what it may know and why", file.Path)
			continue
		}
		for _, path := range file.imports() {
			if complaint := home.objects(file, path); complaint != "" {
				t.Errorf("%s imports %s, but %s: %s", file.Path, path, complaint, home.Why)
			}
		}
	}
}

func TestOnlyTheOutsideSpeaksKubernetes(t *testing.T) {
	for _, file := range sources(t) {
		if _, ok := longest(file.Dir, speaksKubernetes); ok {
			continue
		}
		for _, path := range file.imports() {
			if hasPrefix(path, kubernetes) {
				t.Errorf("%s imports %s: API objects are converted once, in kube/; pass plain values instead", file.Path, path)
			}
		}
	}
}

func TestUpstreamGivesTypesOnly(t *testing.T) {
	const upstream = "sigs.k8s.io/karpenter/"
	for _, file := range sources(t) {
		for _, path := range file.imports() {
			if strings.HasPrefix(path, upstream) && !strings.HasPrefix(path, upstream+"pkg/apis") {
				t.Errorf("%s imports %s: of upstream Karpenter we use the API types (pkg/apis/…); its engine and controllers are what karve replaces", file.Path, path)
			}
		}
	}
}

func TestNobodyImportsCommandsOrTests(t *testing.T) {
	for _, file := range sources(t) {
		for _, path := range file.imports() {
			dir, ours := local(path)
			shared := within(dir, "cmd/internal") && within(file.Dir, "cmd")
			if ours && !shared && (within(dir, "cmd") || within(dir, "test/e2e")) {
				t.Errorf("%s imports %s: move what is shared inward", file.Path, path)
			}
		}
	}
}

func roomOf(dir string) (room, bool) {
	folders := make([]string, len(rooms))
	for i, r := range rooms {
		folders[i] = r.Folder
	}
	best, ok := longest(dir, folders)
	if !ok {
		return room{}, false
	}
	return rooms[slices.Index(folders, best)], true
}

// objects says in words why the room may not import path; empty when it may.
func (r room) objects(file source, path string) string {
	dir, ours := local(path)
	if !ours {
		if r.StandardOnly && !standard(path) && !(file.Test && strings.HasPrefix(path, "github.com/google/go-cmp/cmp")) {
			return r.Folder + " imports the standard library only"
		}
		return ""
	}
	if file.Test && testHelp(dir) {
		return ""
	}
	other, ok := roomOf(dir)
	inner := strings.HasPrefix(other.Folder, r.Folder+"/internal/")
	if ok && (other.Folder == r.Folder || inner || slices.Contains(r.Knows, other.Folder)) {
		return ""
	}
	// Tests of a provider run it against the emulator, and those of controllers
	// against the in-memory provider.
	if file.Test && ok && slices.Contains(r.testKnows(), other.Folder) {
		return ""
	}
	return r.Folder + " may import of ours only " + strings.Join(append([]string{r.Folder}, r.Knows...), ", ")
}

// testKnows lists what only the room's tests may import.
func (r room) testKnows() []string {
	switch r.Folder {
	case "provider/azure", "controller", "cmd/karve":
		return []string{"azureemulator", "provider/azure", "local"}
	case "azureemulator":
		return []string{"local"} // its node agent joins a real control plane
	}
	return nil
}

// testHelp reports whether a package exists for tests.
func testHelp(dir string) bool {
	return strings.HasSuffix(dir, "test") && within(dir, "engine") || dir == "provider/providertest"
}

// local turns an import path of ours into its folder.
func local(path string) (dir string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// standard reports whether path is of the standard library: those have no dot in
// their first element.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func hasPrefix(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
}
