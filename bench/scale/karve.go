// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// vmSize of the nodes.
const vmSize = "Standard_D16s_v5"

// controller is a side: a process that can be started again.
type controller interface {
	name() string
	origin() origin
	// made prepares the controller's cloud for a NodeClaim that exists already.
	made(ctx context.Context, c *karpv1.NodeClaim, node string) error
	// start returns when the process is ready.
	start(ctx context.Context) error
	stop() error
	// process is its ID and the URL of its metrics.
	process() (pid int, metrics string)
}

// karve is karve with VMs in the emulator.
type karve struct {
	env   *local.Environment
	token string
}

// newKarve takes over an environment.
func newKarve(ctx context.Context, env *local.Environment) (*karve, error) {
	credential, err := env.Emulator().Credential()
	if err != nil {
		return nil, err
	}
	token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
	if err != nil {
		return nil, fmt.Errorf("signing in to the emulator: %w", err)
	}
	return &karve{env, token.Token}, nil
}

func (k *karve) name() string { return "karve" }

func (k *karve) azure() *azureemulator.Server { return k.env.Emulator() }

func (k *karve) group() string {
	return "/subscriptions/" + k.azure().SubscriptionID() + "/resourceGroups/" + k.azure().NodeResourceGroup()
}

func (k *karve) origin() origin {
	return origin{
		class:        karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"},
		instanceType: vmSize, zone: k.azure().Location() + "-1",
		requirements: []karpv1.NodeSelectorRequirementWithMinValues{in("karpenter.azure.com/sku-family", "D")},
		providerID: func(node string) string {
			return fmt.Sprintf("azure:///subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/%s", k.azure().SubscriptionID(), strings.ToLower(k.azure().NodeResourceGroup()), node)
		},
	}
}

// made creates the VM of a NodeClaim as karve does.
func (k *karve) made(ctx context.Context, c *karpv1.NodeClaim, node string) error {
	tags := map[string]string{
		"karve.dev_cluster": "karve", "karve.dev_claim": c.Name, "karve.dev_claim-uid": string(c.UID), "karve.dev_class": "default",
		"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": mainPool, "compute.aks.billing": "linux",
	}
	type object = map[string]any
	nic := k.group() + "/providers/Microsoft.Network/networkInterfaces/" + node
	err := k.put(ctx, nic, object{"location": k.azure().Location(), "tags": tags, "properties": object{
		"enableAcceleratedNetworking": true,
		"ipConfigurations":            []object{{"name": node, "properties": object{"primary": true, "privateIPAllocationMethod": "Dynamic", "subnet": object{"id": k.azure().SubnetID()}}}},
	}})
	if err != nil {
		return err
	}
	return k.put(ctx, k.group()+"/providers/Microsoft.Compute/virtualMachines/"+node, object{"location": k.azure().Location(), "tags": tags, "zones": []string{"1"}, "properties": object{
		"hardwareProfile": object{"vmSize": vmSize},
		"storageProfile": object{
			"osDisk":         object{"name": node, "osType": "Linux", "createOption": "FromImage", "deleteOption": "Delete", "diskSizeGB": 128},
			"imageReference": object{"communityGalleryImageId": "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2204gen2containerd/versions/202511.02.0"},
		},
		"networkProfile": object{"networkInterfaces": []object{{"id": nic, "properties": object{"primary": true, "deleteOption": "Delete"}}}},
		"osProfile": object{"adminUsername": "azureuser", "computerName": node, "customData": "IyEvYmluL2Jhc2gK", "linuxConfiguration": object{
			"disablePasswordAuthentication": true,
			"ssh":                           object{"publicKeys": []object{{"path": "/home/azureuser/.ssh/authorized_keys", "keyData": "ssh-ed25519 AAAA test"}}},
		}},
		"priority": "Regular",
	}})
}

func (k *karve) put(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, k.azure().URL()+path+"?api-version=2024-07-01", bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+k.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := k.azure().InProcess().Do(request)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("creating %s: %s: %s", path, response.Status, answer)
	}
	return nil
}

func (k *karve) start(ctx context.Context) error { return k.env.StartKarve(ctx) }

func (k *karve) stop() error { return k.env.StopKarve() }

func (k *karve) process() (pid int, metrics string) {
	pid, address := k.env.KarveProcess()
	return pid, "http://" + address + "/metrics"
}
