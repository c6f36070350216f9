package azureemulator

import (
	"net/http"
	"strings"
)

// route ties a method and a path to a handler. Path segments compare without
// letter case, as Resource Manager's do.
type route struct {
	method  string
	pattern []string // lower case; {name} takes any one segment
	// name is the SDK's name for the operation, which the ledger counts by.
	name    string
	class   class
	handle  func(*Server, *request) (reply, error)
	isOpen  bool // needs no bearer token
	isAdmin bool // not Azure: neither counted, throttled nor faulted
	// isMetadata is of the metadata service of a machine, which has faults of its own.
	isMetadata bool
}

// find returns the route for a request and its parameters. A path that is
// known under another method is answered 405.
func (s *Server) find(method, path string) (*route, map[string]string, *Error) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	known := false
	for i := range s.routes {
		params, matches := match(s.routes[i].pattern, segments)
		if matches && s.routes[i].method == method {
			return &s.routes[i], params, nil
		}
		known = known || matches
	}
	if known {
		return nil, nil, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The HTTP method '%s' is not supported at path '%s'.", method, path)
	}
	return nil, nil, notFound("InvalidResourceType", "The path '%s' names no resource type that this emulator knows.", path)
}

func match(pattern, segments []string) (map[string]string, bool) {
	if len(pattern) != len(segments) {
		return nil, false
	}
	for i, p := range pattern {
		if !isParam(p) && !strings.EqualFold(p, segments[i]) {
			return nil, false
		}
	}
	params := map[string]string{}
	for i, p := range pattern {
		if isParam(p) {
			params[p[1:len(p)-1]] = segments[i]
		}
	}
	return params, true
}

func isParam(segment string) bool { return strings.HasPrefix(segment, "{") }

// Prefixes of the paths below.
const (
	inSubscription = "subscriptions/{subscription}"
	inGroup        = inSubscription + "/resourcegroups/{group}"
	inLocation     = inSubscription + "/providers/microsoft.compute/locations/{location}"
	computeIn      = inGroup + "/providers/microsoft.compute/"
	networkIn      = inGroup + "/providers/microsoft.network/"
	gallery        = inLocation + "/communitygalleries/{gallery}/images/{image}/versions"
)

// azure is a route of Resource Manager, open one that asks for no token.
func azure(method, pattern, name string, c class, handle func(*Server, *request) (reply, error)) route {
	return route{method: method, pattern: strings.Split(pattern, "/"), name: name, class: c, handle: handle}
}

func open(method, pattern, name string, handle func(*Server, *request) (reply, error)) route {
	r := azure(method, pattern, name, unlimited, handle)
	r.isOpen = true
	return r
}

func admin(method, pattern string, handle func(*Server, *request) (reply, error)) route {
	r := open(method, "_emulator/"+pattern, "", handle)
	r.isAdmin = true
	return r
}

// metadata is a route of a machine's metadata service.
func metadata(method, pattern string, handle func(*Server, *request) (reply, error)) route {
	r := admin(method, "vms/{vm}/imds/metadata/"+pattern, handle)
	r.isMetadata = true
	return r
}

// routes is the whole surface.
func routes() []route {
	vm := computeIn + "virtualmachines"
	disk := computeIn + "disks"
	nic := networkIn + "networkinterfaces"
	vnet := networkIn + "virtualnetworks"
	pool := inGroup + "/providers/microsoft.containerservice/managedclusters/{cluster}/agentpools/{pool}"
	return []route{
		open("GET", "{tenant}/discovery/instance", "Identity.DiscoverInstance", (*Server).discoverInstance),
		open("GET", "{tenant}/v2.0/.well-known/openid-configuration", "Identity.DiscoverTenant", (*Server).discoverTenant),
		open("POST", "{tenant}/oauth2/v2.0/token", "Identity.Token", (*Server).issueToken),
		open("GET", "sharedgallery/token", "SharedGallery.Token", (*Server).issueSharedToken),
		open("GET", "api/retail/prices", "RetailPrices.List", (*Server).listPrices),

		azure("GET", inSubscription+"/locations", "Subscriptions.ListLocations", reads, (*Server).listLocations),
		azure("GET", inSubscription+"/resourcegroups", "ResourceGroups.List", reads, (*Server).listGroups),
		azure("GET", inGroup, "ResourceGroups.Get", reads, (*Server).getGroup),

		azure("GET", inSubscription+"/providers/microsoft.compute/skus", "ResourceSKUs.List", reads, (*Server).listSKUs),
		azure("GET", inLocation+"/usages", "Usage.List", reads, (*Server).listUsages),
		azure("GET", gallery, "CommunityGalleryImageVersions.List", reads, (*Server).listImageVersions),
		azure("GET", gallery+"/{version}", "CommunityGalleryImageVersions.Get", reads, (*Server).getImageVersion),
		azure("GET", inSubscription+"/providers/microsoft.containerservice/locations/{location}/nodeimageversions", "NodeImageVersions.List", reads, (*Server).listNodeImages),
		azure("GET", computeIn+"diskencryptionsets/{set}", "DiskEncryptionSets.Get", reads, (*Server).getEncryptionSet),
		azure("GET", inSubscription+"/providers/microsoft.containerservice/locations/{location}/operations/{operation}", "ManagedClusters.GetOperation", pollAKS, (*Server).getOperation),
		azure("GET", inSubscription+"/providers/{namespace}/locations/{location}/operations/{operation}", "Operations.Get", pollOperation, (*Server).getOperation),

		azure("PUT", vm+"/{vm}", "VirtualMachines.CreateOrUpdate", writeVM, (*Server).putVM),
		azure("PATCH", vm+"/{vm}", "VirtualMachines.Update", updateVM, (*Server).patchVM),
		azure("GET", vm+"/{vm}", "VirtualMachines.Get", readVM, (*Server).getVM),
		azure("GET", vm+"/{vm}/instanceview", "VirtualMachines.InstanceView", readVM, (*Server).getInstanceView),
		azure("GET", vm, "VirtualMachines.List", listVM, (*Server).listVMs),
		azure("GET", inSubscription+"/providers/microsoft.compute/virtualmachines", "VirtualMachines.ListAll", listVM, (*Server).listVMs),
		azure("DELETE", vm+"/{vm}", "VirtualMachines.Delete", deleteVM, (*Server).deleteVM),
		azure("POST", vm+"/{vm}/simulateeviction", "VirtualMachines.SimulateEviction", deleteVM, (*Server).simulateEviction),
		azure("POST", vm+"/{vm}/deallocate", "VirtualMachines.Deallocate", deleteVM, (*Server).deallocateVM),
		azure("POST", vm+"/{vm}/start", "VirtualMachines.Start", updateVM, (*Server).startVM),

		azure("GET", vm+"/{vm}/extensions", "VirtualMachineExtensions.List", readVM, (*Server).listExtensions),
		azure("PUT", vm+"/{vm}/extensions/{extension}", "VirtualMachineExtensions.CreateOrUpdate", updateVM, (*Server).putExtension),
		azure("PATCH", vm+"/{vm}/extensions/{extension}", "VirtualMachineExtensions.Update", updateVM, (*Server).patchExtension),
		azure("GET", vm+"/{vm}/extensions/{extension}", "VirtualMachineExtensions.Get", readVM, (*Server).getExtension),
		azure("DELETE", vm+"/{vm}/extensions/{extension}", "VirtualMachineExtensions.Delete", updateVM, (*Server).deleteExtension),

		azure("GET", disk, "Disks.ListByResourceGroup", reads, (*Server).listDisks),
		azure("GET", inSubscription+"/providers/microsoft.compute/disks", "Disks.List", reads, (*Server).listDisks),
		azure("GET", disk+"/{disk}", "Disks.Get", reads, (*Server).getDisk),
		azure("DELETE", disk+"/{disk}", "Disks.Delete", deletes, (*Server).deleteDisk),

		azure("PUT", nic+"/{nic}", "Interfaces.CreateOrUpdate", writes, (*Server).putNIC),
		azure("PATCH", nic+"/{nic}", "Interfaces.UpdateTags", writes, (*Server).patchNIC),
		azure("GET", nic+"/{nic}", "Interfaces.Get", reads, (*Server).getNIC),
		azure("GET", nic, "Interfaces.List", reads, (*Server).listNICs),
		azure("GET", inSubscription+"/providers/microsoft.network/networkinterfaces", "Interfaces.ListAll", reads, (*Server).listNICs),
		azure("DELETE", nic+"/{nic}", "Interfaces.Delete", deletes, (*Server).deleteNIC),

		azure("GET", vnet, "VirtualNetworks.List", reads, (*Server).listVNets),
		azure("GET", vnet+"/{vnet}", "VirtualNetworks.Get", reads, (*Server).getVNet),
		azure("GET", vnet+"/{vnet}/subnets", "Subnets.List", reads, (*Server).listSubnets),
		azure("GET", vnet+"/{vnet}/subnets/{subnet}", "Subnets.Get", reads, (*Server).getSubnet),
		azure("GET", vnet+"/{vnet}/subnets/{subnet}/providers/microsoft.authorization/permissions", "Permissions.ListForResource", reads, (*Server).listSubnetPermissions),
		azure("GET", networkIn+"networksecuritygroups", "SecurityGroups.List", reads, (*Server).listSecurityGroups),
		azure("GET", networkIn+"networksecuritygroups/{nsg}", "SecurityGroups.Get", reads, (*Server).getSecurityGroup),
		azure("GET", networkIn+"loadbalancers", "LoadBalancers.List", reads, (*Server).listLoadBalancers),
		azure("GET", networkIn+"loadbalancers/{lb}", "LoadBalancers.Get", reads, (*Server).getLoadBalancer),

		azure("GET", pool, "AgentPools.Get", callAKS, (*Server).getPool),
		azure("PUT", pool, "AgentPools.CreateOrUpdate", putAKS, (*Server).putPool),
		azure("POST", pool+"/deletemachines", "AgentPools.DeleteMachines", callAKS, (*Server).deleteMachines),
		azure("GET", pool+"/machines", "Machines.List", callAKS, (*Server).listMachines),
		azure("GET", pool+"/machines/{machine}", "Machines.Get", callAKS, (*Server).getMachine),
		azure("PUT", pool+"/machines/{machine}", "Machines.CreateOrUpdate", callAKS, (*Server).putMachine),

		admin("GET", "state", (*Server).adminState),
		admin("GET", "ledger", (*Server).adminLedger),
		admin("GET", "invariants", (*Server).adminInvariants),
		admin("GET", "stockouts", (*Server).adminListStockouts),
		admin("POST", "stockouts", (*Server).adminAddStockout),
		admin("DELETE", "stockouts", (*Server).adminClearStockouts),
		admin("GET", "faults", (*Server).adminListFaults),
		admin("POST", "faults", (*Server).adminAddFault),
		admin("DELETE", "faults", (*Server).adminClearFaults),
		admin("GET", "faults/catalogue", (*Server).adminCatalogue),
		admin("POST", "faults/named", (*Server).adminInject),
		admin("PUT", "quota", (*Server).adminSetQuota),
		admin("PUT", "throttling", (*Server).adminSetThrottling),
		admin("PUT", "timescale", (*Server).adminSetTimeScale),
		admin("POST", "images", (*Server).adminPublishImage),
		admin("POST", "subnets", (*Server).adminAddSubnet),
		admin("PUT", "subnets/join", (*Server).adminSetJoin),
		admin("POST", "tokens/revoke", (*Server).adminRevokeTokens),
		admin("POST", "machines/{machine}/drift", (*Server).adminDriftMachine),
		admin("POST", "vms/{vm}/evict", (*Server).adminEvict),
		admin("GET", "vms/{vm}/scheduledevents", (*Server).adminScheduledEvents),
		admin("POST", "vms/{vm}/scheduledevents", (*Server).adminAnnounce),
		admin("DELETE", "vms/{vm}/scheduledevents", (*Server).adminWithdraw),
		metadata("GET", "instance", (*Server).imdsInstance),
		metadata("GET", "instance/compute", (*Server).imdsCompute),
		metadata("GET", "scheduledevents", (*Server).imdsEvents),
		metadata("POST", "scheduledevents", (*Server).imdsStart),
		metadata("GET", "identity/oauth2/token", (*Server).imdsToken),
	}
}
