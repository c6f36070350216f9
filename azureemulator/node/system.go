// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// System is what the VM's kernel and resolver are told. The zero value leaves
// everything as the image has it.
type System struct {
	// Sysctls are kernel settings by name.
	Sysctls map[string]string
	// SwapMiB is the size of the swap file; zero means none.
	SwapMiB int64
	// HugePages and HugePageDefrag are as in /sys/kernel/mm/transparent_hugepage.
	HugePages, HugePageDefrag string
	// DNSCache is the configuration of the DNS cache; empty means there is none.
	DNSCache string
}

// cacheForPods is where the DNS cache of AKS's images answers pods.
const cacheForPods = "169.254.10.11"

// readSystem refuses what the provisioning scripts end with an error for.
func readSystem(env map[string]string) (System, error) {
	var s System
	var err error
	if s.Sysctls, err = readSysctls(env["SYSCTL_CONTENT"]); err != nil {
		return s, err
	}
	if env["SHOULD_CONFIG_SWAP_FILE"] == "true" {
		if s.SwapMiB, err = strconv.ParseInt(env["SWAP_FILE_SIZE_MB"], 10, 64); err != nil || s.SwapMiB <= 0 {
			return s, fmt.Errorf("SWAP_FILE_SIZE_MB is %q: no size of a file", env["SWAP_FILE_SIZE_MB"])
		}
	}
	if env["SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE"] == "true" {
		s.HugePages, s.HugePageDefrag = env["THP_ENABLED"], env["THP_DEFRAG"]
		if !oneWord(s.HugePages, "always madvise never") || !oneWord(s.HugePageDefrag, "always defer defer+madvise madvise never") {
			return s, fmt.Errorf("the kernel has no huge pages %q, %q", s.HugePages, s.HugePageDefrag)
		}
	}
	if env["SHOULD_ENABLE_LOCALDNS"] == "true" {
		file, err := base64.StdEncoding.DecodeString(env["LOCALDNS_GENERATED_COREFILE"])
		if err != nil || len(file) == 0 {
			return s, errors.New("LOCALDNS_GENERATED_COREFILE is no file, and the DNS cache is on")
		}
		s.DNSCache = string(file)
	}
	return s, nil
}

// oneWord reports whether the word is empty or one of the list.
func oneWord(word, list string) bool {
	return word == "" || strings.Contains(" "+list+" ", " "+word+" ")
}

func readSysctls(encoded string) (map[string]string, error) {
	if encoded == "" {
		return nil, nil
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("SYSCTL_CONTENT is not base64: %w", err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !found || strings.ContainsAny(name, " \t") || name == "" || value == "" {
			return nil, errors.New("SYSCTL_CONTENT: a line is no name=value")
		}
		settings[name] = value
	}
	return settings, nil
}

// checkCredentialProvider: kubelets of these versions fetch what lets them pull from
// Azure's registries, and do not start without; later ones have it as a package.
func checkCredentialProvider(env map[string]string, version string) error {
	asks := strings.Contains(env["KUBELET_FLAGS"], "--image-credential-provider-config=")
	if asks && minor(version) < 33 && env["CREDENTIAL_PROVIDER_DOWNLOAD_URL"] == "" {
		return errors.New("CREDENTIAL_PROVIDER_DOWNLOAD_URL is empty, and the kubelet's flags ask for a credential provider")
	}
	return nil
}
