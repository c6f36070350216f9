// SPDX-License-Identifier: Apache-2.0

package v1beta1

// LocalDNS runs a DNS cache on each node and says where it forwards which zone.
type LocalDNS struct {
	// mode Required turns the cache on, Disabled turns it off. Preferred turns it
	// on once the cluster supports it, and from then on keeps it on.
	Mode LocalDNSMode `json:"mode"`

	// vnetDNSOverrides holds the settings for queries from the kubelet and from
	// pods with dnsPolicy Default, one entry per zone. The zones "." and
	// "cluster.local" must be there.
	// +listType=map
	// +listMapKey=zone
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="['.', 'cluster.local'].all(z, self.exists(x, x.zone == z))",message="localDNS.vnetDNSOverrides must have an entry for zone '.' and one for zone 'cluster.local': add what is missing"
	// +kubebuilder:validation:XValidation:rule="!self.exists(x, x.zone == '.' && x.forwardDestination == 'ClusterCoreDNS')",message="localDNS.vnetDNSOverrides may not forward the root zone '.' to ClusterCoreDNS: set its forwardDestination to VnetDNS"
	// +kubebuilder:validation:XValidation:rule="!self.exists(x, x.zone != '.' && !x.zone.endsWith('cluster.local') && x.forwardDestination == 'ClusterCoreDNS')",message="localDNS.vnetDNSOverrides may not forward zones outside cluster.local to ClusterCoreDNS: set their forwardDestination to VnetDNS"
	VnetDNSOverrides []LocalDNSZoneOverride `json:"vnetDNSOverrides"`

	// kubeDNSOverrides holds the settings for queries from pods with dnsPolicy
	// ClusterFirst, one entry per zone. The zones "." and "cluster.local" must be
	// there.
	// +listType=map
	// +listMapKey=zone
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="['.', 'cluster.local'].all(z, self.exists(x, x.zone == z))",message="localDNS.kubeDNSOverrides must have an entry for zone '.' and one for zone 'cluster.local': add what is missing"
	KubeDNSOverrides []LocalDNSZoneOverride `json:"kubeDNSOverrides"`
}

// LocalDNSMode says whether nodes run a DNS cache.
// +kubebuilder:validation:Enum=Preferred;Required;Disabled
type LocalDNSMode string

const (
	LocalDNSModePreferred LocalDNSMode = "Preferred"
	LocalDNSModeRequired  LocalDNSMode = "Required"
	LocalDNSModeDisabled  LocalDNSMode = "Disabled"
)

// LocalDNSZoneOverride says how the cache treats one zone.
//
// +kubebuilder:validation:XValidation:rule="!(self.zone.endsWith('cluster.local') && self.forwardDestination == 'VnetDNS')",message="localDNS may not forward cluster.local or a zone below it to VnetDNS, which does not know it: set its forwardDestination to ClusterCoreDNS"
// +kubebuilder:validation:XValidation:rule="!(self.serveStale == 'Verify' && self.protocol == 'ForceTCP')",message="localDNS cannot combine serveStale Verify with protocol ForceTCP: use serveStale Immediate or Disable, or protocol PreferUDP"
type LocalDNSZoneOverride struct {
	// zone is the DNS zone, for example "cluster.local"; "." is the root, for all
	// names without an entry of their own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^(\.|[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*\.?)$`
	Zone string `json:"zone"`

	// queryLogging Error logs failed queries, Log logs all.
	QueryLogging LocalDNSQueryLogging `json:"queryLogging"`

	// protocol is how the cache asks the server it forwards to.
	Protocol LocalDNSProtocol `json:"protocol"`

	// forwardDestination is the server the cache forwards to: the cluster's
	// CoreDNS, or the DNS servers of the virtual network.
	ForwardDestination LocalDNSForwardDestination `json:"forwardDestination"`

	// forwardPolicy is how one of several servers is chosen.
	ForwardPolicy LocalDNSForwardPolicy `json:"forwardPolicy"`

	// maxConcurrent is how many forwarded queries may be open at once; further
	// ones are refused. 0 means no limit.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxConcurrent *int32 `json:"maxConcurrent"`

	// cacheDuration is how long an answer is kept at most, for example 1h30m.
	CacheDuration NillableDuration `json:"cacheDuration"`

	// serveStaleDuration is for how long after its expiry an answer may still be
	// given while the server cannot be reached, for example 30m.
	ServeStaleDuration NillableDuration `json:"serveStaleDuration"`

	// serveStale Verify asks the server before giving an expired answer,
	// Immediate gives it and asks afterwards, Disable never gives one.
	ServeStale LocalDNSServeStale `json:"serveStale"`
}

// LocalDNSQueryLogging says which queries are logged.
// +kubebuilder:validation:Enum=Error;Log
type LocalDNSQueryLogging string

const (
	LocalDNSQueryLoggingError LocalDNSQueryLogging = "Error"
	LocalDNSQueryLoggingLog   LocalDNSQueryLogging = "Log"
)

// LocalDNSProtocol is how the cache asks the server it forwards to.
// +kubebuilder:validation:Enum=PreferUDP;ForceTCP
type LocalDNSProtocol string

const (
	LocalDNSProtocolPreferUDP LocalDNSProtocol = "PreferUDP"
	LocalDNSProtocolForceTCP  LocalDNSProtocol = "ForceTCP"
)

// LocalDNSForwardDestination is the server the cache forwards to.
// +kubebuilder:validation:Enum=ClusterCoreDNS;VnetDNS
type LocalDNSForwardDestination string

const (
	LocalDNSForwardDestinationClusterCoreDNS LocalDNSForwardDestination = "ClusterCoreDNS"
	LocalDNSForwardDestinationVnetDNS        LocalDNSForwardDestination = "VnetDNS"
)

// LocalDNSForwardPolicy is how one of several servers is chosen.
// +kubebuilder:validation:Enum=Sequential;RoundRobin;Random
type LocalDNSForwardPolicy string

const (
	LocalDNSForwardPolicySequential LocalDNSForwardPolicy = "Sequential"
	LocalDNSForwardPolicyRoundRobin LocalDNSForwardPolicy = "RoundRobin"
	LocalDNSForwardPolicyRandom     LocalDNSForwardPolicy = "Random"
)

// LocalDNSServeStale says when an expired answer may be given.
// +kubebuilder:validation:Enum=Verify;Immediate;Disable
type LocalDNSServeStale string

const (
	LocalDNSServeStaleVerify    LocalDNSServeStale = "Verify"
	LocalDNSServeStaleImmediate LocalDNSServeStale = "Immediate"
	LocalDNSServeStaleDisable   LocalDNSServeStale = "Disable"
)
