// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armlist"
)

// The two requests per virtual machine are encoded and decoded here, and not by the SDK's
// client: its JSON handling takes more time than everything else.

// put requests the creation of a virtual machine that must not exist yet. It returns the
// response too, whose body has been read.
func (c byCompute) put(ctx context.Context, name string, vm armcompute.VirtualMachine) (*createPoller, *http.Response, error) {
	req, err := c.request(ctx, http.MethodPut, name, nil)
	if err != nil {
		return nil, nil, err
	}
	body, err := encodeMachine(vm)
	if err != nil {
		return nil, nil, err
	}
	if err := req.SetBody(streaming.NopCloser(bytes.NewReader(body)), "application/json"); err != nil {
		return nil, nil, err
	}
	req.Raw().Header.Set("If-None-Match", "*")
	pipeline := c.p.clients.arm.Pipeline()
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
func (c byCompute) get(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	req, err := c.request(ctx, http.MethodGet, name, url.Values{"$expand": {string(armcompute.InstanceViewTypesInstanceView)}})
	if err != nil {
		return nil, err
	}
	resp, err := c.p.clients.arm.Pipeline().Do(req)
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
	return armlist.Decode[armcompute.VirtualMachine](&c.p.decoder, body)
}

func (c byCompute) request(ctx context.Context, method, name string, query url.Values) (*policy.Request, error) {
	o := &c.p.opts
	link := machineShelf.URL(c.p.clients.arm, o.SubscriptionID, o.NodeResourceGroup, name)
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

// encodeMachine encodes a virtual machine as the SDK does, except customData: that is most of
// the body, is base64, which needs no escapes, and would be scanned once more at each level of
// the body.
func encodeMachine(vm armcompute.VirtualMachine) ([]byte, error) {
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
