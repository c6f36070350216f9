package emulator

import (
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/karve-dev/karve/provider/azure/emulator/catalog"
)

// putVM creates a machine, or looks at one that is there.
func (s *Server) putVM(r *request) (reply, error) {
	w, err := readWish(r.body)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	v := s.vms[key(g.name, r.params["vm"])]
	if v == nil {
		return s.createVM(g.name, r.params["vm"], w)
	}
	return s.putAgain(v, w)
}

// putAgain answers a PUT on a machine that exists. The same body as before is
// no change: the caller is told how the creation stands, and one that failed is
// tried again.
func (s *Server) putAgain(v *vm, w wish) (reply, error) {
	if v.state == deleting {
		return reply{}, beingDeleted(v)
	}
	if v.state == failed && v.power == "" {
		return s.retryVM(v, w)
	}
	if err := v.change(w, s.chance.uuid()); err != nil {
		return reply{}, err
	}
	return s.created(v, http.StatusOK)
}

// createVM checks the whole request before it changes anything.
func (s *Server) createVM(group, name string, w wish) (reply, error) {
	v, err := s.plan(group, name, w)
	if err != nil {
		return reply{}, err
	}
	if err := s.checkVM(v); err != nil {
		return reply{}, err
	}
	if err := s.checkQuota(claims(v.size, v.spec.isSpot())); err != nil {
		return reply{}, err
	}
	refusal, late := s.shortage(v)
	if refusal != nil {
		s.reserveNICs(v)
		return reply{}, refusal
	}
	if err := s.attachNICs(v); err != nil {
		return reply{}, err
	}
	s.quota.take(claims(v.size, v.spec.isSpot()))
	s.addOSDisk(v)
	s.vms[key(group, name)] = v
	s.hosts[strings.ToLower(v.spec.Properties.OSProfile.ComputerName)] = v
	s.allocate(v, late)
	s.log.Info("virtual machine accepted", slog.String("vm", name), slog.String("size", v.size.Name),
		slog.String("zone", v.spec.zone()), slog.String("priority", v.spec.priority()))
	return s.created(v, http.StatusCreated)
}

// retryVM allocates a machine whose first allocation failed, in another size if
// the body says so.
func (s *Server) retryVM(v *vm, w wish) (reply, error) {
	size, err := s.sizeNamed(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return reply{}, err
	}
	before := *v
	v.size = size
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	if err := v.change(w, v.etag); err != nil {
		*v = before
		return reply{}, err
	}
	v.spec.Properties.HardwareProfile.VMSize = size.Name
	s.quota.giveBack(claims(before.size, v.spec.isSpot()))
	refusal, late := s.retryable(v)
	if refusal != nil {
		*v = before
		s.quota.take(claims(v.size, v.spec.isSpot()))
		return reply{}, refusal
	}
	s.quota.take(claims(v.size, v.spec.isSpot()))
	s.allocate(v, late)
	return s.created(v, http.StatusOK)
}

func (s *Server) retryable(v *vm) (refusal error, late *Error) {
	if err := s.checkVM(v); err != nil {
		return err, nil
	}
	if err := s.checkQuota(claims(v.size, v.spec.isSpot())); err != nil {
		return err, nil
	}
	now, late := s.shortage(v)
	if now != nil {
		return now, nil
	}
	return nil, late
}

// allocate puts the end of a creation on the agenda. failure is what it will
// fail of, which shows sooner than success.
func (s *Server) allocate(v *vm, failure *Error) {
	v.life++
	v.state, v.failure = creating, nil
	v.at = s.begin("Microsoft.Compute", computePace)
	life, wait := v.life, s.chance.draw(s.options.Latency.Create)
	if failure != nil {
		wait /= 3
	}
	s.afterScaled(wait, func() {
		if v.life == life {
			s.endCreation(v, failure)
		}
	})
}

func (s *Server) endCreation(v *vm, failure *Error) {
	s.operations.finish(v.at, failure)
	v.at = nil
	if failure != nil {
		v.state, v.failure = failed, failure
		s.log.Info("allocation failed", slog.String("vm", v.name), slog.String("size", v.size.Name), slog.String("code", failure.Code))
		return
	}
	v.state, v.power = succeeded, starting
	s.bootLater(v)
}

// bootLater boots the machine after its delay, unless something ends its life.
func (s *Server) bootLater(v *vm) {
	life := v.life
	s.later(s.options.Latency.Boot, func() {
		if v.life == life {
			s.boot(v)
		}
	})
}

// plan reads what the request asks for into a machine that is not there yet.
func (s *Server) plan(group, name string, w wish) (*vm, error) {
	if err := s.checkLocation(w.spec.Location); err != nil {
		return nil, err
	}
	size, err := s.sizeNamed(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return nil, err
	}
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	setString(&w.spec.Properties.OSProfile.ComputerName, name)
	osDisk := &w.spec.Properties.StorageProfile.OSDisk
	setString(&osDisk.Name, name+"_OsDisk_1_"+s.chance.hex(16)+s.chance.hex(16))
	id := s.resourceID(group, "Microsoft.Compute", "virtualMachines", name)
	v := &vm{common: s.newCommon(id, name, group), vmID: s.chance.uuid(), wish: w, size: size, extensions: map[string]*extension{}}
	v.tags = w.spec.Tags
	return v, nil
}

// sizeNamed finds a size sold in the region.
func (s *Server) sizeNamed(name string) (catalog.Size, error) {
	size, known := s.sizes[strings.ToLower(name)]
	if known {
		if _, offered := size.ZonesIn(s.options.Location); offered {
			return size, nil
		}
	}
	return size, invalidParameter("vmSize", "The requested VM size %s is not available in the current region. The sizes available in the current region are: %s. Find out more on the available VM sizes in each region at https://aka.ms/azure-regions.", name, strings.Join(s.sizesSold(5), ",")+",…")
}

// checkVM refuses what Azure would, apart from quota, stock and interfaces that
// are new. Its order is from the plainest mistake to the rarest.
func (s *Server) checkVM(v *vm) error {
	for _, check := range []func(*vm) error{
		s.checkNames, s.checkZone, s.checkPriority, s.checkImage, s.checkDisk, s.checkInterfaces, s.checkRestrictions,
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

func (s *Server) checkPriority(v *vm) error {
	p := v.spec.Properties
	if p.Priority != "" && !v.spec.isSpot() && !strings.EqualFold(p.Priority, "Regular") {
		return invalidParameter("priority", "The value '%s' of parameter 'priority' is not one of Regular, Low, Spot.", p.Priority)
	}
	if !v.spec.isSpot() {
		if p.EvictionPolicy != "" {
			return invalidParameter("evictionPolicy", "Eviction policy can be set only on Azure Spot Virtual Machines. For more information, see http://aka.ms/AzureSpot/errormessages.")
		}
		return nil
	}
	if p.EvictionPolicy != "" && !strings.EqualFold(p.EvictionPolicy, "Delete") && !strings.EqualFold(p.EvictionPolicy, "Deallocate") {
		return invalidParameter("evictionPolicy", "The value '%s' of parameter 'evictionPolicy' is not one of Deallocate, Delete.", p.EvictionPolicy)
	}
	price, _ := v.size.PriceIn(v.location)
	if !v.size.Spot {
		return badRequest("BadRequest", "The VM size '%s' does not support Azure Spot. For more information, see http://aka.ms/AzureSpot/errormessages.", v.size.Name)
	}
	if b := p.BillingProfile; b != nil && b.MaxPrice != nil && *b.MaxPrice != -1 && *b.MaxPrice < price.Spot {
		return conflict("OperationNotAllowed", "Unable to perform operation 'Create VM' since the provided max price '%g USD' is lower than the current spot price '%g USD' for Azure Spot VM size '%s'. For more information, see http://aka.ms/AzureSpot/errormessages.", *b.MaxPrice, price.Spot, v.size.Name)
	}
	return nil
}

// checkImage holds an image of the community galleries against the size. Other
// images are taken on trust.
func (s *Server) checkImage(v *vm) error {
	reference := v.spec.Properties.StorageProfile.ImageReference
	if reference.name() == "" {
		return invalidParameter("imageReference", "Required parameter 'imageReference' is missing (null).")
	}
	if reference.CommunityGalleryImageID == "" {
		return nil
	}
	image, found := s.imageByID(reference.CommunityGalleryImageID)
	if !found {
		return notFound("GalleryImageNotFound", "The gallery image %s is not available in %s region. Please contact image owner to replicate to this region, or change your requested region.", reference.CommunityGalleryImageID, v.location)
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

// addOSDisk makes the machine's managed disk.
func (s *Server) addOSDisk(v *vm) {
	if v.spec.ephemeral() {
		return
	}
	spec := v.spec.Properties.StorageProfile.OSDisk
	id := s.resourceID(v.group, "Microsoft.Compute", "disks", spec.Name)
	d := &disk{common: s.newCommon(id, spec.Name, v.group), sizeGB: max(spec.DiskSizeGB, 30), sku: spec.ManagedDisk.StorageAccountType, zone: v.spec.zone(), vm: v.id, state: succeeded}
	if d.sku == "" {
		d.sku = "Standard_LRS"
		if v.size.PremiumIO {
			d.sku = "Premium_LRS"
		}
	}
	d.tags = v.tags
	v.osDisk = d
	s.disks[key(v.group, spec.Name)] = d
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
