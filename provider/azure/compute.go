// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/token"
)

// A computeBackend creates virtual machines through Compute. All information about one is in the
// virtual machine and in the operation that created it. Its handle is its name.
type computeBackend struct {
	conn     *connection
	vms      *armcompute.VirtualMachinesClient
	settings requestSettings
	network  *network.Reader
	region   regionName
	// sharedToken authorizes images of another tenant.
	sharedToken *token.GalleryToken
	inFlight    *inFlights
	limiter     rateLimiter
	now         func() time.Time
}

func (c *computeBackend) handle(claim provider.Claim) string {
	return vmNameFor(claim.Name, claim.UID)
}

func (c *computeBackend) vmName(handle string) string { return handle }

func (c *computeBackend) reserveCreate(handle string, urgent bool) time.Duration {
	return c.limiter.reserveCreate(handle, urgent)
}

func (c *computeBackend) reserveDelete(handle string) bool { return c.limiter.reserveDelete(handle) }

func (c *computeBackend) create(ctx context.Context, spec *vmSpec) (map[string]string, error) {
	body, err := c.settings.body(ctx, spec)
	if err != nil {
		return nil, beforeRequest(err)
	}
	if ctx, err = c.sharedToken.WithToken(ctx); err != nil {
		return nil, beforeRequest(&temporaryError{err})
	}
	poller, accepted, err := c.put(ctx, spec.handle, *body)
	if err != nil {
		switch armerr.Classify(err).Kind {
		case armerr.StaleReference:
			c.network.Clear()
		case armerr.Denied:
			c.sharedToken.Clear()
		}
		return nil, err
	}
	now := c.now()
	c.inFlight.put(spec.handle, inFlight{requestedAt: now, operation: poller})
	return operationAnnotation(accepted, spec.offering, now), nil
}

func (*computeBackend) acceptanceIsFinal() bool { return true }

func (c *computeBackend) read(ctx context.Context, handle string) (*virtualMachine, error) {
	vm, err := c.get(ctx, handle)
	if err != nil {
		if armerr.Classify(err).Kind == armerr.NotFound {
			return nil, provider.ErrNotFound
		}
		return nil, armerr.Wrap(err, "reading VM %s", handle)
	}
	if vm.Properties == nil {
		vm.Properties = &armcompute.VirtualMachineProperties{}
	}
	return &virtualMachine{VirtualMachine: vm, handle: handle}, nil
}

// failureReason reads the failure from the creation's operation, as this process or the claim
// remembers it, and otherwise from the status of the virtual machine.
func (c *computeBackend) failureReason(ctx context.Context, claim provider.Claim, vm *virtualMachine) armerr.Failure {
	if op := c.inFlight.get(vm.handle).operation; op != nil {
		if _, err := op.Poll(ctx); err == nil && op.Done() {
			if _, err := op.Result(ctx); err != nil {
				return armerr.Classify(err)
			}
		}
	}
	if r, ok := c.conn.recordedFailure(ctx, claim, c.region.refOf(vm)); ok {
		return r
	}
	return vm.failureInStatus()
}

// delete skips the guest's shutdown: the node's pods have been drained.
func (c *computeBackend) delete(ctx context.Context, vm *virtualMachine) error {
	_, err := c.vms.BeginDelete(ctx, c.conn.group, armtext.Of(vm.Name),
		&armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err != nil && armerr.Classify(err).Kind != armerr.NotFound {
		return armerr.Wrap(err, "deleting VM %s", armtext.Of(vm.Name))
	}
	return nil
}

// The two requests per virtual machine are encoded and decoded here, and not by the SDK's
// client: its JSON handling takes more time than everything else.

// put requests the creation of a virtual machine that must not exist yet. It returns the
// response too, whose body has been read.
func (c *computeBackend) put(ctx context.Context, name string, vm armcompute.VirtualMachine) (*createPoller, *http.Response, error) {
	req, err := c.conn.request(ctx, http.MethodPut, vmResource, name, nil)
	if err != nil {
		return nil, nil, err
	}
	body, err := encodeVM(vm)
	if err != nil {
		return nil, nil, err
	}
	if err := req.SetBody(streaming.NopCloser(bytes.NewReader(body)), "application/json"); err != nil {
		return nil, nil, err
	}
	req.Raw().Header.Set("If-None-Match", "*")
	pipeline := c.conn.pipeline()
	resp, err := pipeline.Do(req)
	if err != nil {
		return nil, nil, err
	}
	if !runtime.HasStatusCode(resp, http.StatusOK, http.StatusCreated) {
		return nil, nil, runtime.NewResponseError(resp)
	}
	poller, err := runtime.NewPoller[armcompute.VirtualMachinesClientCreateOrUpdateResponse](resp, pipeline, nil)
	return poller, resp, err
}

// get reads a virtual machine with its power state.
func (c *computeBackend) get(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	req, err := c.conn.request(ctx, http.MethodGet, vmResource, name, url.Values{"$expand": {string(armcompute.InstanceViewTypesInstanceView)}})
	if err != nil {
		return nil, err
	}
	resp, err := c.conn.pipeline().Do(req)
	if err != nil {
		return nil, err
	}
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return nil, runtime.NewResponseError(resp)
	}
	body, err := runtime.Payload(resp)
	if err != nil {
		return nil, err
	}
	return armlist.Decode[armcompute.VirtualMachine](c.conn.decoder, body)
}

// encodeVM encodes a virtual machine as the SDK does, except customData: that is most of
// the body, is base64, which needs no escapes, and would be scanned once more at each level of
// the body.
func encodeVM(vm armcompute.VirtualMachine) ([]byte, error) {
	os := vm.Properties.OSProfile
	if os == nil || os.CustomData == nil {
		return json.Marshal(vm)
	}
	properties, without := *vm.Properties, *os
	without.CustomData = to.Ptr("")
	properties.OSProfile = &without
	vm.Properties = &properties
	body, err := json.Marshal(vm)
	if err != nil {
		return nil, err
	}
	// A quote within a string has a backslash before it, and only one object has that name.
	const profile, key = `"osProfile":{`, `"customData":"`
	at := bytes.Index(body, []byte(profile))
	at += bytes.Index(body[at:], []byte(key+`"`)) + len(key)
	return slices.Concat(body[:at], []byte(*os.CustomData), body[at:]), nil
}
