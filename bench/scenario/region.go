// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure"
)

// region reads the instance types of the emulated region through the product's provider: real
// VM sizes at real prices, with the overhead and labels their nodes really have. Of
// some 1,350 on sale 959 can be nodes; the constrained ones come on top.
func region(ctx context.Context) (types []offering.InstanceType, err error) {
	server, err := azureemulator.Start(ctx, azureemulator.Options{SystemNodes: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	credential, err := server.Credential()
	if err != nil {
		return nil, fmt.Errorf("signing in at the emulated region: %w", err)
	}
	provider, err := azure.New(ctx, azure.Options{
		Credential: credential, ClientOptions: server.ClientOptions(), PricesURL: server.URL() + "/api/retail/prices",
		SubscriptionID: server.SubscriptionID(), Location: server.Location(), ClusterName: "bench",
		ClusterEndpoint: "https://bench.example:443", CABundle: server.CACertPEM(),
		NodeResourceGroup: server.NodeResourceGroup(), VNetSubnetID: server.SubnetID(), SSHPublicKey: "ssh-ed25519 AAAA bench",
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:        azure.ClassesFunc(nodeClass),
		Patience:       time.Minute, // for a busy computer
	})
	if err != nil {
		return nil, fmt.Errorf("opening the emulated region: %w", err)
	}
	snapshot, err := provider.Catalog(ctx, Class)
	if err != nil {
		return nil, fmt.Errorf("reading the instance types of the emulated region: %w", err)
	}
	if snapshot.Problem != "" {
		return nil, fmt.Errorf("reading the instance types of the emulated region: %s", snapshot.Problem)
	}
	return withConstrained(snapshot.Types, server.Location())
}

func nodeClass(_ context.Context, name string) (*v1beta1.AKSNodeClass, error) {
	if name != Class {
		return nil, azure.ErrClassNotFound
	}
	version := "1.36.3"
	c := &v1beta1.AKSNodeClass{}
	c.Name = Class
	c.Status.KubernetesVersion = &version
	return c, nil
}
