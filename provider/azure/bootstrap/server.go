// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"net/url"
)

// ServerName returns the host of the API server at endpoint, a URL. The scripts of AKS images
// append :443 to it wherever they use it (cse_main.sh, cse_config.sh): a name that already has a
// port could not be resolved, and a server on another port would not be reached.
func ServerName(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return "", fmt.Errorf("must be an absolute URL such as https://name.hcp.eastus.azmk8s.io:443, got %q", endpoint)
	}
	if port := u.Port(); port != "" && port != "443" {
		return "", fmt.Errorf("must have port 443 or none, got %q: nodes of AKS images use port 443 regardless", endpoint)
	}
	if !serverForm.MatchString(u.Hostname()) {
		return "", fmt.Errorf("must name a host or an IPv4 address, got %q: the scripts of AKS images cannot look up others", endpoint)
	}
	return u.Hostname(), nil
}
