package azure

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
)

// skuSet is the sizes in the region that AKS can run, sorted by name, with one spelling per
// family.
type skuSet struct {
	list   []*sku
	byName map[string]*sku
	// unread are the names of listed sizes that could not be decoded, sorted; empty for one
	// without a name.
	unread []string
}

// skusVersion is the API version of the SDK's client for sizes.
const skusVersion = "2021-07-01"

// skuReader reads the region's sizes.
type skuReader struct {
	arm                    *arm.Client
	decoder                *armlist.Decoder
	subscription, location string
	log                    *slog.Logger
}

func (r *skuReader) read(ctx context.Context) (skuSet, error) {
	query := url.Values{"api-version": {skusVersion}, "$filter": {fmt.Sprintf("location eq '%s'", r.location)}}
	link := runtime.JoinPaths(r.arm.Endpoint(), "subscriptions", url.PathEscape(r.subscription), "providers/Microsoft.Compute/skus") + "?" +
		strings.ReplaceAll(query.Encode(), "+", "%20") // as the SDK does: not every service takes a plus for a space
	raw, odd, err := armlist.All[armcompute.ResourceSKU](ctx, r.arm, r.decoder, link)
	if err != nil {
		return skuSet{}, err
	}
	set := readSKUs(raw, r.location, r.log)
	for _, row := range odd {
		if kind := armlist.TextIn(row, "resourceType"); kind == "" || strings.EqualFold(kind, "virtualMachines") {
			set.unreadable(armlist.NameIn(row))
		}
	}
	if len(set.list) == 0 {
		return skuSet{}, errors.New("the region sells no VM size that a node could be")
	}
	return set, nil
}

// unreadable records a size that could not be decoded.
func (s *skuSet) unreadable(name string) {
	if i, known := slices.BinarySearch(s.unread, name); !known {
		s.unread = slices.Insert(s.unread, i, name)
	}
}

// unreadInWords describes those sizes; empty when there are none.
func (s *skuSet) unreadInWords() string {
	if len(s.unread) == 0 {
		return ""
	}
	names := slices.Clone(s.unread)
	if names[0] == "" {
		names[0] = "one without a name"
	}
	return fmt.Sprintf("Azure's description of VM sizes cannot be read: %s: they are not bought, and their machines stay", few(names))
}

// readSKUs converts sizes one by one: a malformed one is skipped and recorded, so that a new
// kind of size does not make the others unavailable.
func readSKUs(raw []*armcompute.ResourceSKU, location string, log *slog.Logger) skuSet {
	set := skuSet{byName: map[string]*sku{}}
	for _, item := range raw {
		if item == nil || !strings.EqualFold(armtext.Of(item.ResourceType), "virtualMachines") {
			continue
		}
		s, err := readSKU(item, location)
		if err != nil {
			set.unreadable(armtext.Of(item.Name))
			log.Debug("VM size not read", "size", armtext.Of(item.Name), "error", err)
			continue
		}
		if s.usable() && set.byName[s.name] == nil {
			set.list = append(set.list, s)
			set.byName[s.name] = s
		}
	}
	slices.SortFunc(set.list, func(a, b *sku) int { return strings.Compare(a.name, b.name) })
	set.oneSpelling()
	return set
}

// oneSpelling gives all sizes of a quota family the same spelling of it: the API's letter case
// differs, and quotas are matched by exact name.
func (s skuSet) oneSpelling() {
	spelling := map[string]string{}
	for _, k := range s.list {
		key := strings.ToLower(k.family)
		if _, ok := spelling[key]; !ok {
			spelling[key] = k.family
		}
		k.family = spelling[key]
	}
}

// usable reports whether AKS can make a node of the size at all: two vCPUs and 3.5 GiB, not one
// of the sizes that AKS excludes by name, all cores on, not confidential (such nodes need images
// that karve does not offer), and no accelerator without a driver.
func (s *sku) usable() bool {
	switch {
	case s.vcpus < 2 || s.memoryMiB < 3584:
		return false
	case s.size.Tier == "Basic" || refusedSize(s.name):
		return false
	case s.constrained || s.confidential:
		return false
	case (s.size.Family == "D" || s.size.Family == "E") && strings.HasPrefix(s.size.Subfamily, "C"):
		return false // DC and EC: confidential, whatever the capabilities say
	case !s.gen1 && !s.gen2:
		return false
	}
	return s.size.Family != "N" || s.gpus > 0 && knownGPU(s.gpu.Name)
}

// refusedSize lists the sizes of two vCPUs and more that AKS, or provisioning on it, has trouble
// with. (usable excludes smaller ones.)
func refusedSize(name string) bool {
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

// doubtSKUs returns an error for an answer that lost more than half of the region's sizes: that
// has never been true, and acting on it would drift nodes.
func doubtSKUs(last, next skuSet) error {
	if len(next.list)*2 < len(last.list) {
		return fmt.Errorf("the region's VM sizes shrank from %d to %d at once: keeping the earlier list", len(last.list), len(next.list))
	}
	return nil
}
