// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// Incumbent serves the scenario's orders as Karpenter's provider for Azure does, as far
// as it matters here: each NodeClaim tries one offer, the cheapest that is not
// remembered as unavailable; when that is refused the claim is given up, the refusal
// is remembered for the time that its table says, and the pods are planned for again.
// Families' quota is looked up every ten minutes, VMs on their way do not count,
// and quota of the region or of spot is not looked at.
func Incumbent(ctx context.Context, s Scenario) (Result, error) {
	var broken error
	result, err := s.withDefaults().serve(ctx, func(d *run) launcher {
		in, err := newIncumbent(d)
		broken = err
		return in.launchOrder
	})
	return result, errors.Join(broken, err)
}

type incumbent struct {
	run    *run
	client *arm.Client
	// catalog are the offerings, as they were before the first launch.
	catalog  *provider.Catalog
	families map[string]string // quota family by size

	mu               sync.Mutex
	unavailableUntil map[unavailability]time.Time // until when
	quotaLeft        map[string]int64             // cores of families, as last read
	quotaRead        time.Time
}

// unavailability is what the incumbent leaves alone: a size with its capacity type, in a zone.
type unavailability struct{ size, zone, capacityType string }

const quotaReadInterval = 10 * time.Minute

func newIncumbent(d *run) (*incumbent, error) {
	in := &incumbent{run: d, unavailableUntil: map[unavailability]time.Time{}, families: map[string]string{}}
	credential, err := d.region.Credential()
	if err != nil {
		return in, err
	}
	options := d.region.ClientOptions()
	options.Transport = d.wire
	if in.client, err = arm.NewClient("incumbent", "v1.0.0", credential, options); err != nil {
		return in, err
	}
	in.catalog, err = d.provider.Catalog(context.Background(), className)
	if err != nil {
		return in, err
	}
	for i := range in.catalog.Types {
		t := &in.catalog.Types[i]
		for _, f := range t.Offerings {
			for _, draw := range f.QuotaUses {
				if name, ok := strings.CutPrefix(draw.Quota, "family:"); ok {
					in.families[t.Name] = strings.ToLower(name)
				}
			}
		}
	}
	return in, nil
}

func (in *incumbent) launchOrder(ctx context.Context, o order) (offering.Price, error) {
	for try := range maxPlans {
		if choice, ok := in.choose(o); ok {
			err := in.attempt(ctx, fmt.Sprintf("aks-%s-%d", o.name, try), choice)
			if err == nil {
				return choice.Price, nil
			}
			if ctx.Err() != nil {
				return 0, err
			}
			in.learn(err, choice)
		}
		if err := Sleep(ctx, planAgainAfter); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// choose takes the one offer that is tried.
func (in *incumbent) choose(o order) (offering.Ref, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.readQuota()
	for _, c := range o.choices(&provider.Catalog{Types: in.catalog.Types}) {
		until := in.unavailableUntil[unavailability{c.Type, c.Zone, c.CapacityType}]
		if time.Now().After(until) && in.quotaAllows(c) {
			return c, true
		}
	}
	return offering.Ref{}, false
}

// quotaAllows compares an on-demand VM's cores with what was left of its family's
// quota when that was looked up.
func (in *incumbent) quotaAllows(c offering.Ref) bool {
	left, known := in.quotaLeft[in.families[c.Type]]
	return c.CapacityType == offering.Spot || !known || left >= in.cores(c.Type)
}

func (in *incumbent) cores(size string) int64 {
	for i := range in.catalog.Types {
		if t := &in.catalog.Types[i]; t.Name == size {
			return t.Capacity["cpu"] / 1000
		}
	}
	return 0
}

func (in *incumbent) readQuota() {
	if !in.quotaRead.IsZero() && time.Since(in.quotaRead) < quotaReadInterval {
		return
	}
	in.quotaRead, in.quotaLeft = time.Now(), map[string]int64{}
	for _, u := range in.run.region.Capacity.Usages() {
		in.quotaLeft[strings.ToLower(u.Name)] = int64(u.Limit - u.Current)
	}
}

// attempt asks for a VM and waits until it is there, or why not.
func (in *incumbent) attempt(ctx context.Context, name string, c offering.Ref) error {
	location := in.run.region.Location()
	vm := map[string]any{"location": location, "properties": properties(name, in.run.region.SubnetID(), c)}
	if zone := strings.TrimPrefix(c.Zone, location+"-"); zone != c.Zone {
		vm["zones"] = []string{zone}
	}
	body, err := json.Marshal(vm)
	if err != nil {
		return err
	}
	path := fmt.Sprintf("%s/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/%s?api-version=2025-04-01",
		in.client.Endpoint(), in.run.region.SubscriptionID(), in.run.region.NodeResourceGroup(), name)
	poller, err := in.begin(ctx, path, body)
	if err == nil {
		_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: 3 * time.Second})
	}
	if err != nil && poller != nil {
		_ = in.remove(ctx, path) // what stays behind is not what is counted here
	}
	return err
}

func (in *incumbent) begin(ctx context.Context, path string, body []byte) (*runtime.Poller[struct{}], error) {
	req, err := runtime.NewRequest(ctx, http.MethodPut, path)
	if err != nil {
		return nil, err
	}
	if err := req.SetBody(streaming(body), "application/json"); err != nil {
		return nil, err
	}
	resp, err := in.client.Pipeline().Do(req)
	if err != nil {
		return nil, err
	}
	if !runtime.HasStatusCode(resp, http.StatusOK, http.StatusCreated) {
		return nil, runtime.NewResponseError(resp)
	}
	return runtime.NewPoller[struct{}](resp, in.client.Pipeline(), nil)
}

func (in *incumbent) remove(ctx context.Context, path string) error {
	req, err := runtime.NewRequest(ctx, http.MethodDelete, path+"&forceDeletion=true")
	if err != nil {
		return err
	}
	resp, err := in.client.Pipeline().Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

func streaming(b []byte) body { return body{bytes.NewReader(b)} }

// properties are the least a VM can be asked for with.
func properties(name, subnet string, c offering.Ref) map[string]any {
	ref := func(id string) map[string]any { return map[string]any{"id": id} }
	p := map[string]any{
		"hardwareProfile": map[string]any{"vmSize": c.Type},
		"storageProfile": map[string]any{
			"imageReference": ref("/an/image"),
			"osDisk":         map[string]any{"createOption": "FromImage", "deleteOption": "Delete"},
		},
		"osProfile": map[string]any{"computerName": name, "adminUsername": "azureuser"},
		"networkProfile": map[string]any{
			"networkApiVersion": "2022-11-01",
			"networkInterfaceConfigurations": []any{map[string]any{"name": name, "properties": map[string]any{
				"primary": true, "deleteOption": "Delete",
				"ipConfigurations": []any{map[string]any{"name": name, "properties": map[string]any{"subnet": ref(subnet)}}},
			}}},
		},
	}
	if c.CapacityType == offering.Spot {
		p["priority"], p["evictionPolicy"] = "Spot", "Delete"
	}
	return p
}

// learn keeps what the incumbent's table of refusals keeps, for as long. A refused size
// takes the larger ones of its family along.
func (in *incumbent) learn(err error, c offering.Ref) {
	var refusal *azcore.ResponseError
	code, text := "", err.Error()
	if errors.As(err, &refusal) {
		code = refusal.ErrorCode
	}
	zones, both, lasts := []string{c.Zone}, false, 3*time.Minute
	switch {
	case code == "OperationNotAllowed" && strings.Contains(text, "LowPriorityCores"):
		in.markUnavailable(in.all(func(f offering.Offering) bool { return f.CapacityType == offering.Spot }), time.Hour)
		return
	case code == "OperationNotAllowed" && strings.Contains(text, "Total Regional Cores"):
		return // nothing is remembered
	case code == "OperationNotAllowed":
		zones, lasts = nil, 10*time.Minute
		if strings.Contains(text, "Current Limit: 0,") {
			lasts = time.Hour
		}
	case code == azureemulator.SkuNotAvailable:
		zones, lasts = in.scope(c), 23*time.Hour
		if c.CapacityType == offering.Spot {
			lasts = time.Hour
		}
	case code == azureemulator.ZonalAllocationFailed:
		both, lasts = true, time.Hour
	case code == azureemulator.AllocationFailed:
		zones, both, lasts = in.scope(c), true, time.Hour
	case code == azureemulator.OverconstrainedZonalAllocationRequest:
		lasts = time.Hour
	case code == azureemulator.OverconstrainedAllocationRequest:
		zones, lasts = in.scope(c), time.Hour
	}
	in.markUnavailable(in.family(c, zones, both), lasts)
}

// scope are the zones of a choice's scope: all, or the region without a choice of zone.
func (in *incumbent) scope(c offering.Ref) []string {
	if c.Fallback {
		return []string{c.Zone}
	}
	location := in.run.region.Location()
	return []string{location + "-1", location + "-2", location + "-3"}
}

// family are the offers of the choice's family with at least its cores, in some zones
// or everywhere, as the choice is or in both ways.
func (in *incumbent) family(c offering.Ref, zones []string, both bool) []unavailability {
	cores := in.cores(c.Type)
	var all []unavailability
	for i := range in.catalog.Types {
		t := &in.catalog.Types[i]
		if in.families[t.Name] != in.families[c.Type] || t.Capacity["cpu"]/1000 < cores {
			continue
		}
		for _, f := range t.Offerings {
			if (both || f.CapacityType == c.CapacityType) && (zones == nil || slices.Contains(zones, f.Zone)) {
				all = append(all, unavailability{t.Name, f.Zone, f.CapacityType})
			}
		}
	}
	return all
}

func (in *incumbent) all(match func(offering.Offering) bool) []unavailability {
	var all []unavailability
	for i := range in.catalog.Types {
		for _, f := range in.catalog.Types[i].Offerings {
			if match(f) {
				all = append(all, unavailability{in.catalog.Types[i].Name, f.Zone, f.CapacityType})
			}
		}
	}
	return all
}

func (in *incumbent) markUnavailable(all []unavailability, lasts time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, r := range all {
		in.unavailableUntil[r] = time.Now().Add(lasts)
	}
}
