// SPDX-License-Identifier: Apache-2.0

package network

// A CNI is the cluster's network plugin, in AKS's spelling.
type CNI struct {
	Plugin    string // azure or none
	Mode      string // overlay, or empty for node subnet
	Dataplane string // azure, cilium or empty
	Policy    string // network policy engine
}

// Values of a CNI's fields.
const (
	PluginAzure     = "azure"
	PluginNone      = "none"
	PolicyCilium    = "cilium"
	PolicyCalico    = "calico"
	ModeOverlay     = "overlay"
	DataplaneCilium = "cilium"
)

// Overlay reports whether pods have addresses outside of the subnet.
func (c CNI) Overlay() bool { return c.Plugin == PluginAzure && c.Mode == ModeOverlay }

// PodsInSubnet reports whether pods have addresses of the node's subnet.
func (c CNI) PodsInSubnet() bool { return c.Plugin == PluginAzure && c.Mode != ModeOverlay }

// DefaultMaxPods returns AKS's default for a node class that sets none.
func (c CNI) DefaultMaxPods() int64 {
	switch {
	case c.Plugin == PluginNone, c.Overlay():
		return 250
	case c.PodsInSubnet():
		return 30 // every pod takes an address of the subnet
	}
	return 110
}

// AddressesPerNode returns how many addresses of its subnet a node takes: one with an overlay or a
// network plugin other than Azure's, otherwise one for each pod it may run.
func (c CNI) AddressesPerNode(maxPods int64) int64 {
	if !c.PodsInSubnet() {
		return 1
	}
	return max(1, maxPods)
}

// BootstrapPlugin returns the plugin that the image sets up: none if a DaemonSet installs it.
func (c CNI) BootstrapPlugin() string {
	if c.Plugin == PluginNone || c.Mode == ModeOverlay || c.Dataplane == DataplaneCilium {
		return PluginNone
	}
	return PluginAzure
}
