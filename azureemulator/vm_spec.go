// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// vmSpec is what the emulator acts on of a VM's body. The rest of
// the body is kept and echoed.
type vmSpec struct {
	Location   string            `json:"location"`
	Zones      []string          `json:"zones"`
	Tags       map[string]string `json:"tags"`
	Properties struct {
		HardwareProfile struct {
			VMSize string `json:"vmSize"`
		} `json:"hardwareProfile"`
		StorageProfile struct {
			ImageReference imageReference `json:"imageReference"`
			OSDisk         osDiskSpec     `json:"osDisk"`
		} `json:"storageProfile"`
		NetworkProfile networkProfile `json:"networkProfile"`
		OSProfile      struct {
			ComputerName  string `json:"computerName"`
			AdminUsername string `json:"adminUsername"`
			CustomData    string `json:"customData"`
		} `json:"osProfile"`
		Priority       string `json:"priority"`
		EvictionPolicy string `json:"evictionPolicy"`
		BillingProfile *struct {
			MaxPrice *float64 `json:"maxPrice"`
		} `json:"billingProfile"`
	} `json:"properties"`
}

type imageReference struct {
	ID                      string `json:"id"`
	CommunityGalleryImageID string `json:"communityGalleryImageId"`
	SharedGalleryImageID    string `json:"sharedGalleryImageId"`
	Publisher               string `json:"publisher"`
	Offer                   string `json:"offer"`
	SKU                     string `json:"sku"`
	Version                 string `json:"version"`
}

// name is the image in one string.
func (i imageReference) name() string {
	for _, id := range []string{i.CommunityGalleryImageID, i.ID, i.SharedGalleryImageID} {
		if id != "" {
			return id
		}
	}
	if i.Publisher == "" {
		return ""
	}
	return strings.Join([]string{i.Publisher, i.Offer, i.SKU, i.Version}, ":")
}

type osDiskSpec struct {
	Name             string `json:"name"`
	CreateOption     string `json:"createOption"`
	DeleteOption     string `json:"deleteOption"`
	Caching          string `json:"caching"`
	DiskSizeGB       int    `json:"diskSizeGB"`
	DiffDiskSettings *struct {
		Option    string `json:"option"`
		Placement string `json:"placement"`
	} `json:"diffDiskSettings"`
	ManagedDisk struct {
		StorageAccountType string `json:"storageAccountType"`
		DiskEncryptionSet  struct {
			ID string `json:"id"`
		} `json:"diskEncryptionSet"`
	} `json:"managedDisk"`
}

type networkProfile struct {
	APIVersion     string         `json:"networkApiVersion"`
	Interfaces     []nicReference `json:"networkInterfaces"`
	Configurations []nicInline    `json:"networkInterfaceConfigurations"`
}

type nicReference struct {
	ID         string `json:"id"`
	Properties struct {
		Primary      *bool  `json:"primary,omitempty"`
		DeleteOption string `json:"deleteOption,omitempty"`
	} `json:"properties"`
}

// nicInline is an interface made together with its VM.
type nicInline struct {
	Name string `json:"name"`
	nicSpec
}

func (s vmSpec) zone() string {
	if len(s.Zones) == 0 {
		return ""
	}
	return s.Zones[0]
}

func (s vmSpec) priority() string {
	if s.isSpot() {
		return "Spot"
	}
	return "Regular"
}

// isSpot counts the older name of spot VMs as one.
func (s vmSpec) isSpot() bool {
	return strings.EqualFold(s.Properties.Priority, "Spot") || strings.EqualFold(s.Properties.Priority, "Low")
}

func (s vmSpec) ephemeral() bool { return s.Properties.StorageProfile.OSDisk.DiffDiskSettings != nil }

// vmRequest is a VM's body: the part acted on, the customData taken out
// of it, and the whole of it for echoing.
type vmRequest struct {
	spec vmSpec
	// customData is decoded; nil when the body had none.
	customData []byte
	// document is never changed once it is here.
	document map[string]any
}

// readVMRequest reads a body. customData must not be seen again, so it is removed.
func readVMRequest(body []byte) (vmRequest, error) {
	var w vmRequest
	body, encoded := cutCustomData(body)
	if err := json.Unmarshal(body, &w.spec); err != nil {
		return w, invalidContent(err)
	}
	if err := json.Unmarshal(body, &w.document); err != nil {
		return w, invalidContent(err)
	}
	w.spec.Properties.OSProfile.CustomData += encoded
	return w.takeCustomData()
}

// cutCustomData takes what is most of a body out of it, where it is written as most clients
// write it, so that it is not read as JSON.
func cutCustomData(body []byte) (rest []byte, encoded string) {
	const profile, key = `"osProfile":{`, `"customData":"`
	from := bytes.Index(body, []byte(profile)) + len(profile)
	at := bytes.Index(body, []byte(key)) + len(key)
	if from < len(profile) || at < from || bytes.ContainsAny(body[from:at], "{}") {
		return body, ""
	}
	length := bytes.IndexByte(body[at:], '"')
	if length < 0 || bytes.IndexByte(body[at:at+length], '\\') >= 0 {
		return body, ""
	}
	return slices.Concat(body[:at], body[at+length:]), string(body[at : at+length])
}

func (w vmRequest) takeCustomData() (vmRequest, error) {
	encoded := w.spec.Properties.OSProfile.CustomData
	if encoded == "" {
		return w, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return w, invalidParameter("customData", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.")
	}
	if len(encoded) > 87380 {
		return w, invalidParameter("customData", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.")
	}
	w.customData = decoded
	w.spec.Properties.OSProfile.CustomData = ""
	delete(object(object(w.document["properties"])["osProfile"]), "customData")
	return w, nil
}

// object reads a JSON object, or an empty one when v is none.
func object(v any) map[string]any {
	if m, isObject := v.(map[string]any); isObject {
		return m
	}
	return map[string]any{}
}

// merged is document with patch laid over it: objects merge, everything else is
// replaced, and tags, as Compute has it, are replaced as a whole.
func merged(document, patch map[string]any) map[string]any {
	result := maps.Clone(document)
	for k, v := range patch {
		inner, isObject := v.(map[string]any)
		if !isObject || k == "tags" {
			result[k] = v
			continue
		}
		result[k] = merged(object(result[k]), inner)
	}
	return result
}

// changedProperty names an immutable property in which now differs from before,
// or is empty. A property that now leaves out is not changed. Size is not among
// them: a VM that was never allocated may be asked for in another one.
func changedProperty(before, now vmSpec) string {
	a, b := before.Properties, now.Properties
	for _, p := range []struct {
		name          string
		before, after string
	}{
		{"location", normalLocation(before.Location), normalLocation(now.Location)},
		{"zones", before.zone(), now.zone()},
		{"priority", a.Priority, b.Priority},
		{"evictionPolicy", a.EvictionPolicy, b.EvictionPolicy},
		{"osProfile.computerName", a.OSProfile.ComputerName, b.OSProfile.ComputerName},
		{"osProfile.adminUsername", a.OSProfile.AdminUsername, b.OSProfile.AdminUsername},
		{"imageReference", a.StorageProfile.ImageReference.name(), b.StorageProfile.ImageReference.name()},
		{"osDisk.name", a.StorageProfile.OSDisk.Name, b.StorageProfile.OSDisk.Name},
		{"osDisk.createOption", a.StorageProfile.OSDisk.CreateOption, b.StorageProfile.OSDisk.CreateOption},
	} {
		if p.after != "" && !strings.EqualFold(p.before, p.after) {
			return p.name
		}
	}
	if size := b.StorageProfile.OSDisk.DiskSizeGB; size != 0 && size != a.StorageProfile.OSDisk.DiskSizeGB {
		return "osDisk.diskSizeGB"
	}
	return ""
}
