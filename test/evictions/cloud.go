// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// writeTakes is how long a write to Azure takes.
const writeTakes = time.Second

// transport is the way to Azure. It takes its time, and notes when VMs are asked for.
type transport struct {
	next      policy.Transporter
	readTakes time.Duration

	mu       sync.Mutex
	launches []time.Time
}

var machinePath = regexp.MustCompile(`(?i)/providers/Microsoft\.Compute/virtualMachines/[^/]+$`)

// Do passes a request on.
func (w *transport) Do(r *http.Request) (*http.Response, error) {
	takes := w.readTakes
	if r.Method != http.MethodGet {
		takes = writeTakes
	}
	if r.Method == http.MethodPut && machinePath.MatchString(r.URL.Path) {
		w.mu.Lock()
		w.launches = append(w.launches, time.Now())
		w.mu.Unlock()
	}
	time.Sleep(takes)
	return w.next.Do(r)
}

func (w *transport) launchesSince(t time.Time) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.launches, func(p time.Time) bool { return !p.Before(t) })
	if i < 0 {
		return nil
	}
	return slices.Clone(w.launches[i:])
}

// newAzure is a region with enough of everything, at Azure's own pace and limits.
func newAzure(ctx context.Context, o Options, guest azureemulator.Guest) (*azureemulator.Server, error) {
	return azureemulator.New(ctx, azureemulator.Options{
		SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: o.Seed, SubnetPrefix: "10.0.0.0/16",
		DefaultFamilyCores: 100_000, RegionalCores: 100_000, LowPriorityCores: 100_000, Guest: guest,
		Sizes: sizes(),
	})
}

// sizes are spot VMs of four vCPUs.
func sizes() []string {
	return []string{"Standard_D4s_v5", "Standard_D4as_v5", "Standard_D4ds_v5", "Standard_D4ads_v5"}
}

func newProvider(ctx context.Context, s *azureemulator.Server, w *transport, share float64) (*azure.Provider, error) {
	credential, err := s.Credential()
	if err != nil {
		return nil, err
	}
	options := *s.ClientOptions()
	options.Transport = w
	version := "1.36.3"
	class := &v1beta1.AKSNodeClass{}
	class.Name, class.Status.KubernetesVersion = "default", &version
	return azure.New(ctx, azure.Options{
		Credential: credential, ClientOptions: &options, SubscriptionID: s.SubscriptionID(), Location: s.Location(), ClusterName: "karve",
		ClusterEndpoint: "https://karve.example:443", CABundle: []byte(azureemulator.IdleAuthority), NodeResourceGroup: s.NodeResourceGroup(), VNetSubnetID: s.SubnetID(),
		ARMShare: share, SSHPublicKey: "ssh-ed25519 AAAA evict", PricesURL: s.URL() + "/api/retail/prices",
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:        azure.ClassesFunc(func(context.Context, string) (*v1beta1.AKSNodeClass, error) { return class, nil }),
	})
}
