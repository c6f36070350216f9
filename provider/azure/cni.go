package azure

// A cni is the cluster's network plugin, in AKS's spelling.
type cni struct {
	plugin    string // azure or none
	mode      string // overlay, or empty for node subnet
	dataplane string // azure, cilium or empty
	policy    string // network policy engine
}

// Values of a cni.
const (
	pluginAzure     = "azure"
	pluginNone      = "none"
	policyCilium    = "cilium"
	policyCalico    = "calico"
	modeOverlay     = "overlay"
	dataplaneCilium = "cilium"
)

// overlay reports whether pods have addresses outside of the subnet.
func (c cni) overlay() bool { return c.plugin == pluginAzure && c.mode == modeOverlay }

// podsInSubnet reports whether pods have addresses of the node's subnet.
func (c cni) podsInSubnet() bool { return c.plugin == pluginAzure && c.mode != modeOverlay }

// defaultMaxPods returns AKS's default for a node class that sets none.
func (c cni) defaultMaxPods() int64 {
	switch {
	case c.plugin == pluginNone, c.overlay():
		return 250
	case c.podsInSubnet():
		return 30 // every pod takes an address of the subnet
	}
	return 110
}

// addressesOf returns how many addresses of its subnet a node takes: one with an overlay or a
// network plugin other than Azure's, otherwise one for each pod it may run.
func (c cni) addressesOf(maxPods int64) int64 {
	if !c.podsInSubnet() {
		return 1
	}
	return max(1, maxPods)
}

// bootstrapPlugin returns the plugin that the image sets up: none if a DaemonSet installs it.
func (c cni) bootstrapPlugin() string {
	if c.plugin == pluginNone || c.mode == modeOverlay || c.dataplane == dataplaneCilium {
		return pluginNone
	}
	return pluginAzure
}
