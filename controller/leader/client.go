// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client that asks the fence before each write.
func (f *Fence) Client(c client.Client) client.Client { return &fencedClient{c, f} }

type fencedClient struct {
	client.Client
	fence *Fence
}

func (c *fencedClient) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.fence.before(ctx, func() error { return c.Client.Apply(ctx, o, opts...) })
}

func (c *fencedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.fence.before(ctx, func() error { return c.Client.Create(ctx, o, opts...) })
}

func (c *fencedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.fence.before(ctx, func() error { return c.Client.Update(ctx, o, opts...) })
}

func (c *fencedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.fence.before(ctx, func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

func (c *fencedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.fence.before(ctx, func() error { return c.Client.Delete(ctx, o, opts...) })
}

func (c *fencedClient) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	return c.fence.before(ctx, func() error { return c.Client.DeleteAllOf(ctx, o, opts...) })
}

func (c *fencedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *fencedClient) SubResource(name string) client.SubResourceClient {
	return &fencedSubResource{c.Client.SubResource(name), c.fence}
}

type fencedSubResource struct {
	client.SubResourceClient
	fence *Fence
}

func (c *fencedSubResource) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return c.fence.before(ctx, func() error { return c.SubResourceClient.Apply(ctx, o, opts...) })
}

func (c *fencedSubResource) Create(ctx context.Context, o, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return c.fence.before(ctx, func() error { return c.SubResourceClient.Create(ctx, o, sub, opts...) })
}

func (c *fencedSubResource) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return c.fence.before(ctx, func() error { return c.SubResourceClient.Update(ctx, o, opts...) })
}

func (c *fencedSubResource) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.fence.before(ctx, func() error { return c.SubResourceClient.Patch(ctx, o, p, opts...) })
}

func (f *Fence) before(ctx context.Context, write func() error) error {
	if err := f.Check(ctx); err != nil {
		return err
	}
	return write()
}
