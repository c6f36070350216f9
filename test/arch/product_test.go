// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// outsideProduct are the folders that the karve binary must not carry: they stand for the cloud
// and the cluster in the demo, in tests and in benchmarks. So does every package whose name ends
// in "test".
var outsideProduct = []string{"azureemulator", "local", "test", "hack", "cmd/karve-demo"}

// TestKarveCarriesNoEmulator: karve runs with the credentials of a cluster and a subscription, so
// it carries only what it needs there.
func TestKarveCarriesNoEmulator(t *testing.T) {
	carried := reaches(sources(t), "cmd/karve")
	for _, dir := range slices.Sorted(maps.Keys(carried)) {
		if _, outside := longest(dir, outsideProduct); outside || strings.HasSuffix(dir, "test") {
			t.Errorf("cmd/karve carries %s (%s): the demo is cmd/karve-demo, and what both need is a package that knows neither",
				dir, strings.Join(carried[dir], " → "))
		}
	}
}

// The search sees what is there, in the binary that has it.
func TestDemoCarriesTheEmulator(t *testing.T) {
	carried := reaches(sources(t), "cmd/karve-demo")
	for _, want := range []string{"local", "local/cluster", "azureemulator", "azureemulator/catalog"} {
		if carried[want] == nil {
			t.Errorf("the search does not find that cmd/karve-demo carries %s", want)
		}
	}
}

// reaches maps each folder of the module that is linked into a command to the shortest chain of
// imports that leads there. Files of every operating system count.
func reaches(files []source, from string) map[string][]string {
	_, byDir := folders(files)
	chains := map[string][]string{from: {from}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		for _, file := range byDir[dir] {
			for _, path := range file.imports() {
				to, ours := local(path)
				if ours && chains[to] == nil {
					chains[to] = append(slices.Clone(chains[dir]), to)
					queue = append(queue, to)
				}
			}
		}
	}
	return chains
}
