// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"maps"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// vmBody is the body of the virtual machine behind a machine: one interface, and disk
// and interface that go with it.
func (am *aksMachines) vmBody(m *aksMachine, spec machineSpec, name string) map[string]any {
	size := am.sizes.known(spec.Hardware.VMSize)
	subnet := spec.Network.VnetSubnetID
	setString(&subnet, am.sub.nodeSubnetID())
	properties := map[string]any{
		"hardwareProfile": map[string]string{"vmSize": size.Name},
		"storageProfile":  map[string]any{"imageReference": ref(am.galleries.machineImage(spec, size)), "osDisk": machineDisk(spec, size)},
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
	body := map[string]any{"location": am.sub.location, "tags": m.virtualTags(), "properties": properties}
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
		if size.RoomForOSDisk(p) >= disk["diskSizeGB"].(int) {
			placement = p
		}
	}
	disk["caching"] = "ReadOnly"
	disk["diffDiskSettings"] = map[string]string{"option": "Local", "placement": placement}
	return disk
}
