package azureemulator

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// checkVM refuses what Azure would, apart from quota, stock and interfaces that
// are new. Its order is from the plainest mistake to the rarest.
func (s *Server) checkVM(v *vm) error {
	for _, check := range []func(*vm) error{
		s.checkNames, s.checkZone, s.checkPriority, s.checkImage, s.checkDisk, s.checkEncryption, s.checkInterfaces, s.checkRestrictions,
	} {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

var computerName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

func (s *Server) checkNames(v *vm) error {
	if name := v.spec.Properties.OSProfile.ComputerName; !computerName.MatchString(name) {
		return invalidParameter("computerName", "Linux host name '%s' is not valid: it must be 1 to 64 letters, digits, periods and hyphens, and begin and end with a letter or digit.", name)
	}
	return nil
}

func (s *Server) checkZone(v *vm) error {
	if len(v.spec.Zones) > 1 {
		return badRequest("MultipleAvailabilityZonesNotSupported", "The resource '%s' can be in one availability zone only, not in '%s'.", v.id, strings.Join(v.spec.Zones, ","))
	}
	zone := v.spec.zone()
	if zone == "" {
		return nil
	}
	if !slices.Contains(s.zones, zone) {
		return badRequest("InvalidAvailabilityZone", "The zone(s) '%s' for resource '%s' is not supported. The supported zones for location '%s' are '%s'", zone, v.id, v.location, strings.Join(s.zones, ","))
	}
	if zones, _ := v.size.ZonesIn(v.location); !slices.Contains(zones, zone) {
		return skuNotAvailable(v.size.Name, v.location)
	}
	return nil
}

// checkPriority refuses terms of spot machines by the codes of Azure's own table of them
// (learn.microsoft.com, "Error codes for Azure Spot Virtual Machines"), which tells no status.
func (s *Server) checkPriority(v *vm) error {
	p := v.spec.Properties
	if p.Priority != "" && !v.spec.isSpot() && !strings.EqualFold(p.Priority, "Regular") {
		return invalidParameter("priority", "The value '%s' of parameter 'priority' is not one of Regular, Low, Spot.", p.Priority)
	}
	if !v.spec.isSpot() {
		if p.EvictionPolicy != "" {
			return badRequest("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", "Eviction policy can be set only on Azure Spot Virtual Machines. For more information, see http://aka.ms/AzureSpot/errormessages.")
		}
		return nil
	}
	if p.EvictionPolicy != "" && !strings.EqualFold(p.EvictionPolicy, "Delete") && !strings.EqualFold(p.EvictionPolicy, "Deallocate") {
		return invalidParameter("evictionPolicy", "The value '%s' of parameter 'evictionPolicy' is not one of Deallocate, Delete.", p.EvictionPolicy)
	}
	price, _ := v.size.PriceIn(v.location)
	if !v.size.Spot {
		return badRequest("AzureSpotIsNotSupportedForThisVMSize", "Azure Spot is not supported for this VM size '%s'. For more information, see http://aka.ms/AzureSpot/errormessages.", v.size.Name)
	}
	if b := p.BillingProfile; b != nil && b.MaxPrice != nil && *b.MaxPrice != -1 && *b.MaxPrice < price.Spot {
		return conflict("SpotPriceGreaterThanProvidedMaxPrice", "Unable to perform operation 'Create VM' since the provided max price '%g USD' is lower than the current spot price '%g USD' for Azure Spot VM size '%s'. For more information, see http://aka.ms/AzureSpot/errormessages.", *b.MaxPrice, price.Spot, v.size.Name)
	}
	return nil
}

// checkImage holds an image of AKS's galleries against the size. Other images are
// taken on trust.
func (s *Server) checkImage(v *vm) error {
	reference := v.spec.Properties.StorageProfile.ImageReference
	if reference.name() == "" {
		return invalidParameter("imageReference", "Required parameter 'imageReference' is missing (null).")
	}
	image, found := s.imageByID(reference.CommunityGalleryImageID)
	if reference.CommunityGalleryImageID == "" {
		if !strings.Contains(strings.ToLower(reference.ID), "/galleries/") {
			return nil
		}
		image, found = s.sharedImage(reference.ID)
	}
	if !found {
		return notFound("GalleryImageNotFound", "The gallery image %s is not available in %s region. Please contact image owner to replicate to this region, or change your requested region.", reference.name(), v.location)
	}
	if image.Architecture != v.size.Architecture {
		return badRequest("BadRequest", "Cannot create a VM of size '%s' because this VM size only supports a CPU Architecture of '%s', but an image or disk given has CPU Architecture '%s'.", v.size.Name, v.size.Architecture, image.Architecture)
	}
	if !strings.Contains(v.size.HyperVGenerations, image.Generation) {
		return badRequest("BadRequest", "The selected VM size '%s' cannot boot Hypervisor Generation '%s'. If this was a Create operation please check that the Hypervisor Generation of the Image matches the Hypervisor Generation of the selected VM Size.", v.size.Name, image.Generation[1:])
	}
	return nil
}

// checkDisk sees that an ephemeral OS disk fits where it is to be placed.
func (s *Server) checkDisk(v *vm) error {
	d := v.spec.Properties.StorageProfile.OSDisk
	if !strings.EqualFold(d.CreateOption, "FromImage") {
		return invalidParameter("osDisk.createOption", "The emulator creates OS disks with createOption FromImage only, not '%s'.", d.CreateOption)
	}
	if other := s.disks[key(v.group, d.Name)]; other != nil && other != v.osDisk {
		return conflict("ConflictingUserInput", "Disk '%s' already exists in resource group %s. Only CreateOption.Attach is supported.", d.Name, strings.ToUpper(v.group))
	}
	if !v.spec.ephemeral() {
		return nil
	}
	if !strings.EqualFold(d.Caching, "ReadOnly") {
		return invalidParameter("osDisk.caching", "Caching type must be ReadOnly for Ephemeral OS disks.")
	}
	placement := d.DiffDiskSettings.Placement
	room := roomFor(v.size, placement)
	if room == 0 {
		return invalidParameter("osDisk.diffDiskSettings", "OS disk of Ephemeral VM with DiffDiskPlacement '%s' is not supported for VM size %s.", placement, v.size.Name)
	}
	if asked := max(d.DiskSizeGB, 30); asked > room {
		return invalidParameter("osDisk.diskSizeGB", "OS disk of Ephemeral VM with size greater than %d GB is not allowed for VM size %s when the DiffDiskPlacement is %s.", room, v.size.Name, placement)
	}
	return nil
}

// roomFor is how many GB a size has for an ephemeral disk at a placement, the
// cache if none is named.
func roomFor(size catalog.Size, placement string) int {
	if placement == "" {
		placement = "CacheDisk"
	}
	if !size.EphemeralOSDisk || !strings.Contains(strings.ToLower(size.EphemeralOSDiskPlacements), strings.ToLower(placement)) {
		return 0
	}
	const mib, gb = 1 << 20, 1e9
	switch strings.ToLower(placement) {
	case "cachedisk":
		return int(math.Floor(float64(size.CachedDiskBytes) / gb))
	case "nvmedisk":
		return int(math.Floor(float64(size.NVMeMiB*mib) / gb))
	default:
		return int(math.Floor(float64(size.ResourceDiskMiB*mib) / gb))
	}
}

// checkRestrictions refuses sizes this subscription may not buy.
func (s *Server) checkRestrictions(v *vm) error {
	for _, r := range s.restrictions {
		if matchesSize(r.Size, v.size.Name) && (len(r.Zones) == 0 || slices.Contains(r.Zones, v.spec.zone())) {
			return skuNotAvailable(v.size.Name, v.location)
		}
	}
	return nil
}
