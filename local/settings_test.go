// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestKarveInheritsNoCloudOfTheDevelopers(t *testing.T) {
	t.Setenv("AZURE_CLIENT_SECRET", "real")
	t.Setenv("KUBECONFIG", "/home/me/.kube/config")
	for _, entry := range inherited() {
		if strings.HasPrefix(entry, "AZURE_") || strings.HasPrefix(entry, "KUBECONFIG=") {
			t.Errorf("%s reaches karve", entry)
		}
	}
}

func TestSSHKeyHasTheFormOfAuthorizedKeys(t *testing.T) {
	key, err := sshKey()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(key)
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if fields[0] != "ssh-ed25519" || err != nil || len(blob) != 4+11+4+32 {
		t.Errorf("key %q: %v, %d bytes", key, err, len(blob))
	}
}
