// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// A Cloud describes, for nodes, an Azure cloud that is neither public nor sovereign. The zero
// value describes none.
type Cloud struct {
	// Environment is the cloud's description in JSON, in Azure Stack's format. Nodes accept only
	// the cloud name akscustom in it.
	Environment []byte
	// RegistrySuffix is the DNS suffix of its container registries, RepoDepot the
	// endpoint of its packages. Both may be empty.
	RegistrySuffix, RepoDepot string
}

// customCloud is the only name of custom clouds that images accept.
const customCloud = "akscustom"

// Custom reports whether c describes a cloud.
func (c Cloud) Custom() bool { return len(c.Environment) > 0 }

func (c Cloud) check() error {
	if !c.Custom() {
		return nil
	}
	if c.manager() == "" {
		return errors.New("the description of the custom cloud lacks resourceManagerEndpoint")
	}
	for _, text := range []string{c.RegistrySuffix, c.RepoDepot} {
		if u, err := url.Parse(text); err != nil || strings.ContainsAny(text, " \"'\\$`") || u.RawQuery != "" {
			return fmt.Errorf("custom cloud: %q is no endpoint", text)
		}
	}
	return nil
}

// manager returns the endpoint of the resource manager in the description.
func (c Cloud) manager() string {
	var e struct {
		ResourceManagerEndpoint string `json:"resourceManagerEndpoint"`
	}
	if json.Unmarshal(c.Environment, &e) != nil {
		return ""
	}
	return e.ResourceManagerEndpoint
}

// cloudNames are the names and endpoints that scripts use for a cloud.
type cloudNames struct {
	prefixes            []string // of its locations; the public cloud has ""
	target, environment string
	manager             string // endpoint of the resource manager
	registry            string // of Kubernetes' own images
}

// clouds returns the clouds in the order in which a location is matched. Images determine the
// cloud by its location too (aks-node-controller/parser/helper.go).
func clouds() []cloudNames {
	named := func(name, manager, registry string, prefixes ...string) cloudNames {
		return cloudNames{prefixes, name, name, manager, registry}
	}
	return []cloudNames{
		named("AzureChinaCloud", "https://management.chinacloudapi.cn/", "mcr.azure.cn", "china"),
		named("AzureUSGovernmentCloud", "https://management.usgovcloudapi.net/", "mcr.microsoft.com", "usgov", "usdod"),
		named("AzurePublicCloud", "https://management.azure.com/", "mcr.microsoft.com", ""),
	}
}

func (n *NodeConfig) cloud() cloudNames {
	location := strings.ToLower(strings.Join(strings.Fields(n.Location), ""))
	all := clouds()
	for _, c := range all {
		for _, prefix := range c.prefixes {
			if !strings.HasPrefix(location, prefix) {
				continue
			}
			if n.Cloud.Custom() {
				c.target, c.environment, c.manager = "AzureStackCloud", customCloud, n.Cloud.manager()
			}
			return c
		}
	}
	return all[len(all)-1]
}

func (c Cloud) encoded() string {
	if !c.Custom() {
		return ""
	}
	return base64.StdEncoding.EncodeToString(c.Environment)
}
