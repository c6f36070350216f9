// SPDX-License-Identifier: Apache-2.0

package sku

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// Set is the sizes in the region that AKS can run, sorted by name, with one spelling per
// family.
type Set struct {
	List   []*SKU
	ByName map[string]*SKU
	// Unread are the names of listed sizes that could not be decoded, sorted; empty for one
	// without a name.
	Unread []string
}

// skusVersion is the API version of the SDK's client for sizes.
const skusVersion = "2021-07-01"

// Reader reads the region's sizes.
type Reader struct {
	ARM                    *arm.Client
	Decoder                *armlist.Decoder
	Subscription, Location string
	Log                    *slog.Logger
}

func (r *Reader) Read(ctx context.Context) (Set, error) {
	query := url.Values{"api-version": {skusVersion}, "$filter": {fmt.Sprintf("location eq '%s'", r.Location)}}
	link := runtime.JoinPaths(r.ARM.Endpoint(), "subscriptions", url.PathEscape(r.Subscription), "providers/Microsoft.Compute/skus") + "?" +
		strings.ReplaceAll(query.Encode(), "+", "%20") // as the SDK does: not every service takes a plus for a space
	raw, malformed, err := armlist.All[armcompute.ResourceSKU](ctx, r.ARM, r.Decoder, link)
	if err != nil {
		return Set{}, err
	}
	set := parseAll(raw, r.Location, r.Log)
	for _, row := range malformed {
		if kind := armlist.TextIn(row, "resourceType"); kind == "" || strings.EqualFold(kind, "virtualMachines") {
			set.unreadable(armlist.NameIn(row))
		}
	}
	if len(set.List) == 0 {
		return Set{}, errors.New("the region offers no VM size that can be a node")
	}
	return set, nil
}

// unreadable records a size that could not be decoded.
func (s *Set) unreadable(name string) {
	if i, known := slices.BinarySearch(s.Unread, name); !known {
		s.Unread = slices.Insert(s.Unread, i, name)
	}
}

// Problem describes the VM sizes in Unread; empty when there are none.
func (s *Set) Problem() string {
	if len(s.Unread) == 0 {
		return ""
	}
	names := slices.Clone(s.Unread)
	if names[0] == "" {
		names[0] = "one without a name"
	}
	return fmt.Sprintf("Azure's description of VM sizes cannot be read: %s: they are not launched, and their nodes stay", armtext.Few(names))
}

// parseAll converts sizes one by one: a malformed one is skipped and recorded, so that a new
// kind of size does not make the others unavailable.
func parseAll(raw []*armcompute.ResourceSKU, location string, log *slog.Logger) Set {
	set := Set{ByName: map[string]*SKU{}}
	for _, item := range raw {
		if item == nil || !strings.EqualFold(armtext.Of(item.ResourceType), "virtualMachines") {
			continue
		}
		s, err := parse(item, location)
		if err != nil {
			set.unreadable(armtext.Of(item.Name))
			log.Debug("VM size not read", "size", armtext.Of(item.Name), "error", err)
			continue
		}
		if s.usable() && set.ByName[s.Name] == nil {
			set.List = append(set.List, s)
			set.ByName[s.Name] = s
		}
	}
	slices.SortFunc(set.List, func(a, b *SKU) int { return strings.Compare(a.Name, b.Name) })
	set.unifyFamilySpelling()
	return set
}

// unifyFamilySpelling gives all sizes of a quota family the same spelling of it: the API's letter
// case differs, and quotas are matched by exact name.
func (s Set) unifyFamilySpelling() {
	spelling := map[string]string{}
	for _, k := range s.List {
		key := strings.ToLower(k.Family)
		if _, ok := spelling[key]; !ok {
			spelling[key] = k.Family
		}
		k.Family = spelling[key]
	}
}

// usable reports whether AKS can make a node of the size at all: two vCPUs and 3.5 GiB, not one
// of the sizes that AKS excludes by name, all cores on, not confidential (such nodes need images
// that karve does not offer), and no accelerator without a driver.
func (s *SKU) usable() bool {
	switch {
	case s.VCPUs < 2 || s.MemoryMiB < 3584:
		return false
	case s.Size.Tier == "Basic" || excludedSize(s.Name):
		return false
	case s.Features.constrained || s.Features.confidential:
		return false
	case (s.Size.Family == "D" || s.Size.Family == "E") && strings.HasPrefix(s.Size.Subfamily, "C"):
		return false // DC and EC: confidential, whatever the capabilities say
	case !s.Gen1 && !s.Gen2:
		return false
	}
	return s.Size.Family != "N" || s.GPUs > 0 && knownGPU(s.GPU.Name)
}

// excludedSize lists the sizes of two vCPUs and more that AKS, or provisioning on it, has trouble
// with. (usable excludes smaller ones.)
func excludedSize(name string) bool {
	return name == "Standard_E64i_v3" || name == "Standard_E64is_v3"
}

// knownGPU lists the models that AKS images have a driver or an operator for.
func knownGPU(model string) bool {
	switch model {
	case "T4", "V100", "A10", "A100", "H100", "H200", "GB200", "GB300", "V710", "MI300X":
		return true
	}
	return strings.HasPrefix(model, "RTXPRO6000")
}

// Validate returns an error for an answer that lost more than half of the region's sizes: no region
// has ever lost so many, and acting on it would drift nodes.
func Validate(last, next Set) error {
	if len(next.List)*2 < len(last.List) {
		return fmt.Errorf("the region's VM sizes shrank from %d to %d at once: keeping the earlier list", len(last.List), len(next.List))
	}
	return nil
}

// HasNVIDIA reports whether the size has GPUs that AKS installs drivers for.
func (s *SKU) HasNVIDIA() bool { return s.GPUs > 0 && s.GPU.Manufacturer == vmsize.NVIDIA }
