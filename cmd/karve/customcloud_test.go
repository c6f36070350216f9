// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Nodes of a custom cloud are told where its registries and its packages are.
//
// Rule BOOTSTRAP-11.
func TestEndpointsOfACustomCloud(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.json")
	text := `{"name": "AKSCustom", "resourceManagerEndpoint": "https://management.example", "containerRegistryDNSSuffix": "registry.example", "repoDepotEndpoint": "https://packages.example"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := CloudConfig{EnvironmentFile: file}.customCloud()
	if err != nil || c.RegistrySuffix != "registry.example" || c.RepoDepot != "https://packages.example" {
		t.Errorf("%+v, %v", c, err)
	}
}
