// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/token"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// A connection is karve's access to Azure Resource Manager. All its clients share one transport,
// one credential and the rate limits.
type connection struct {
	subscription string
	group        string // node resource group
	now          func() time.Time
	options      *arm.ClientOptions
	credential   *token.Renewal
	limits       *ratelimit.Buckets
	decoder      *armlist.Decoder

	arm     *arm.Client // for resources without a client of their own
	compute *armcompute.ClientFactory
	network *armnetwork.ClientFactory
}

// connect makes the clients. It sends no request.
func connect(o *Options) (*connection, error) {
	c := &connection{subscription: o.SubscriptionID, group: o.NodeResourceGroup, now: o.Now, decoder: &armlist.Decoder{}}
	c.limits = ratelimit.New(ratelimit.Options{Share: o.ARMShare, Pace: o.ARMPace, Now: o.Now})
	c.credential = token.NewRenewal(o.Credential, o.Now)
	c.options = limited(o.ClientOptions, c.limits, c.credential, o.MayWrite)
	var err error
	if c.compute, err = armcompute.NewClientFactory(o.SubscriptionID, c.credential, c.options); err != nil {
		return nil, fmt.Errorf("making compute clients: %w", err)
	}
	if c.network, err = armnetwork.NewClientFactory(o.SubscriptionID, c.credential, c.options); err != nil {
		return nil, fmt.Errorf("making network clients: %w", err)
	}
	if c.arm, err = arm.NewClient("karve", "v1.0.0", c.credential, c.options); err != nil {
		return nil, fmt.Errorf("making the ARM client: %w", err)
	}
	return c, nil
}

// transport returns the transport of the clients, for requests that are not ARM's.
func (c *connection) transport() policy.Transporter {
	if c.options.Transport == nil {
		return &http.Client{}
	}
	return c.options.Transport
}

// newList returns the cached list of a kind of resource in the node resource group.
func newList[T any](c *connection, kind armlist.Resource, decode func(json.RawMessage) (T, error), name func(T) string) *armlist.List[T] {
	list := armlist.New(kind.Kind, c.now, func(ctx context.Context) ([]json.RawMessage, int, error) {
		return c.rows(ctx, kind, c.group)
	}, decode, name)
	list.Owner = claimInRow
	return list
}

// rows lists a kind of resource in a resource group.
func (c *connection) rows(ctx context.Context, kind armlist.Resource, group string) (rows []json.RawMessage, pages int, err error) {
	return kind.Rows(ctx, c.arm, c.subscription, group)
}

// request returns a request for one resource in the node resource group.
func (c *connection) request(ctx context.Context, method string, kind armlist.Resource, name string, query url.Values) (*policy.Request, error) {
	link := kind.URL(c.arm, c.subscription, c.group, name)
	if len(query) > 0 {
		link += "&" + query.Encode()
	}
	req, err := runtime.NewRequest(ctx, method, link)
	if err != nil {
		return nil, err
	}
	req.Raw().Header.Set("Accept", "application/json")
	return req, nil
}

// pipeline sends requests of no particular client.
func (c *connection) pipeline() runtime.Pipeline { return c.arm.Pipeline() }
