package azureemulator

import (
	"maps"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// machineVM is the body of the virtual machine behind a machine: one interface, and disk
// and interface that go with it.
func (s *Server) machineVM(m *aksMachine, spec machineSpec, name string) map[string]any {
	size := s.sizes[strings.ToLower(spec.Hardware.VMSize)]
	subnet := spec.Network.VnetSubnetID
	setString(&subnet, s.SubnetID())
	properties := map[string]any{
		"hardwareProfile": map[string]string{"vmSize": size.Name},
		"storageProfile":  map[string]any{"imageReference": ref(s.machineImage(spec, size)), "osDisk": machineDisk(spec, size)},
		"osProfile":       map[string]string{"computerName": name, "adminUsername": "azureuser"},
		"networkProfile": map[string]any{
			"networkApiVersion": "2022-11-01",
			"networkInterfaceConfigurations": []any{map[string]any{"name": strings.TrimSuffix(name, "-vm") + "-nic", "properties": map[string]any{
				"primary": true, "deleteOption": "Delete", "enableAcceleratedNetworking": size.AcceleratedNetworking,
				"ipConfigurations": []any{map[string]any{"name": "ipconfig1", "properties": map[string]any{"subnet": ref(subnet)}}},
			}}},
		},
	}
	if strings.EqualFold(spec.Priority, "Spot") {
		policy := spec.EvictionPolicy
		setString(&policy, "Delete")
		properties["priority"], properties["evictionPolicy"] = "Spot", policy
		if p := spec.Billing.SpotMaxPrice; p != nil {
			properties["billingProfile"] = map[string]any{"maxPrice": *p}
		}
	}
	body := map[string]any{"location": s.options.Location, "tags": m.virtualTags(), "properties": properties}
	if len(m.zones) > 0 {
		body["zones"] = m.zones
	}
	return body
}

// virtualTags are those of the virtual machine: the machine's and AKS's own.
func (m *aksMachine) virtualTags() map[string]string {
	tags := map[string]string{"aks-managed-poolName": m.pool.name, "aks-managed-creationSource": "vms"}
	maps.Copy(tags, m.tags)
	return tags
}

// machineDisk places an ephemeral disk where it fits.
func machineDisk(spec machineSpec, size catalog.Size) map[string]any {
	disk := map[string]any{"createOption": "FromImage", "deleteOption": "Delete", "diskSizeGB": max(spec.OperatingSystem.OSDiskSizeGB, 128)}
	if !strings.EqualFold(spec.OperatingSystem.OSDiskType, "Ephemeral") {
		return disk
	}
	placement := "CacheDisk"
	for _, p := range []string{"NvmeDisk", "CacheDisk", "ResourceDisk"} {
		if roomFor(size, p) >= disk["diskSizeGB"].(int) {
			placement = p
		}
	}
	disk["caching"] = "ReadOnly"
	disk["diffDiskSettings"] = map[string]string{"option": "Local", "placement": placement}
	return disk
}

// machineImage is the image asked for, else the newest that AKS takes for the size.
func (s *Server) machineImage(spec machineSpec, size catalog.Size) string {
	if id, known := s.nodeImage(spec.NodeImageVersion); known {
		return id
	}
	definition := "AKSUbuntu-2204gen2containerd"
	if size.Architecture == "Arm64" {
		definition = "AKSUbuntu-2204gen2arm64containerd"
	}
	if strings.HasPrefix(spec.OperatingSystem.OSSKU, "AzureLinux") {
		definition = strings.NewReplacer("AKSUbuntu-2204gen2", "AKSAzureLinux-V3gen2", "containerd", "").Replace(definition)
	}
	for _, d := range s.images {
		if sharedName(d.Gallery)+"-"+d.Name == definition {
			id, _ := s.nodeImage(definition + "-" + d.versions[len(d.versions)-1].name)
			return id
		}
	}
	return ""
}

// nodeImage finds what AKS calls a node image version, such as
// AKSUbuntu-2204gen2containerd-202511.02.0, in its own galleries.
func (s *Server) nodeImage(fullName string) (id string, known bool) {
	for _, d := range s.images {
		for _, v := range d.versions {
			if os := sharedName(d.Gallery); strings.EqualFold(os+"-"+d.Name+"-"+v.name, fullName) {
				return "/subscriptions/" + sharedSubscription + "/resourceGroups/" + strings.Replace(os, "AKS", "AKS-", 1) +
					"/providers/Microsoft.Compute/galleries/" + os + "/images/" + d.Name + "/versions/" + v.name, true
			}
		}
	}
	return "", false
}
