// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

// azureAccess is how to reach Azure and as whom.
type azureAccess struct {
	Credential azcore.TokenCredential
	Options    *arm.ClientOptions
	// HTTP reaches what needs no credential, such as the price list.
	HTTP *http.Client
}

// reachAzure resolves the cloud, what to trust there, and who karve is. The
// credential is the SDK's default chain: workload identity, managed identity and
// so on, chosen by the SDK's own variables (AZURE_CLIENT_ID, AZURE_TENANT_ID,
// AZURE_FEDERATED_TOKEN_FILE, AZURE_TOKEN_CREDENTIALS …).
func reachAzure(c CloudConfig) (azureAccess, error) {
	where, err := c.cloud()
	if err != nil {
		return azureAccess{}, err
	}
	client, err := trusting(c.CAFile)
	if err != nil {
		return azureAccess{}, err
	}
	options := policy.ClientOptions{Cloud: where, Transport: client}
	credential, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: options,
		TenantID:      c.TenantID,
		// A private cloud's authority is not known to the public directory.
		DisableInstanceDiscovery: c.EnvironmentFile != "",
	})
	if err != nil {
		return azureAccess{}, fmt.Errorf("finding an Azure credential: %w", err)
	}
	return azureAccess{Credential: credential, Options: &arm.ClientOptions{ClientOptions: options}, HTTP: client}, nil
}

// proveIdentity asks for one token, so that a wrong identity is one clear line at
// start and not an error per VM later.
func (a azureAccess) proveIdentity(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	audience := a.Options.Cloud.Services[cloud.ResourceManager].Audience
	_, err := a.Credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{strings.TrimSuffix(audience, "/") + "/.default"}})
	if err != nil {
		return fmt.Errorf("signing in to Azure (check AZURE_CLIENT_ID, AZURE_TENANT_ID and the identity's federation): %w", err)
	}
	return nil
}

// cloud is the Azure that ARM_CLOUD or AZURE_ENVIRONMENT_FILEPATH names; the
// public one when neither is set.
func (c CloudConfig) cloud() (cloud.Configuration, error) {
	if c.EnvironmentFile != "" {
		return readEnvironmentFile(c.EnvironmentFile)
	}
	switch strings.ToLower(c.Cloud) {
	case "", "azurecloud", "azurepubliccloud":
		return cloud.AzurePublic, nil
	case "azurechinacloud":
		return cloud.AzureChina, nil
	case "azureusgovernment", "azureusgovernmentcloud":
		return cloud.AzureGovernment, nil
	}
	return cloud.Configuration{}, fmt.Errorf("ARM_CLOUD=%q is not a cloud karve knows: use AzurePublicCloud, AzureChinaCloud or AzureUSGovernmentCloud, or describe yours in AZURE_ENVIRONMENT_FILEPATH", c.Cloud)
}

// readEnvironmentFile reads a cloud's description in the form Azure Stack uses.
func readEnvironmentFile(path string) (cloud.Configuration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return cloud.Configuration{}, fmt.Errorf("reading AZURE_ENVIRONMENT_FILEPATH: %w", err)
	}
	var file struct {
		ResourceManagerEndpoint string `json:"resourceManagerEndpoint"`
		ActiveDirectoryEndpoint string `json:"activeDirectoryEndpoint"`
		TokenAudience           string `json:"tokenAudience"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return cloud.Configuration{}, fmt.Errorf("reading AZURE_ENVIRONMENT_FILEPATH %s: %w", path, err)
	}
	for name, value := range map[string]string{
		"resourceManagerEndpoint": file.ResourceManagerEndpoint,
		"activeDirectoryEndpoint": file.ActiveDirectoryEndpoint,
		"tokenAudience":           file.TokenAudience,
	} {
		if value == "" {
			return cloud.Configuration{}, fmt.Errorf("AZURE_ENVIRONMENT_FILEPATH %s: %s is missing", path, name)
		}
	}
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: file.ActiveDirectoryEndpoint,
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: file.ResourceManagerEndpoint, Audience: file.TokenAudience},
		},
	}, nil
}

// customCloud is what nodes are told of the cloud in AZURE_ENVIRONMENT_FILEPATH. Only
// clouds called akscustom mean anything to AKS images; nodes elsewhere go by their location.
func (c CloudConfig) customCloud() (bootstrap.Cloud, error) {
	if c.EnvironmentFile == "" {
		return bootstrap.Cloud{}, nil
	}
	text, err := os.ReadFile(c.EnvironmentFile)
	if err != nil {
		return bootstrap.Cloud{}, fmt.Errorf("reading AZURE_ENVIRONMENT_FILEPATH: %w", err)
	}
	var file struct {
		Name                    string `json:"name"`
		ContainerRegistrySuffix string `json:"containerRegistryDNSSuffix"`
		RepoDepotEndpoint       string `json:"repoDepotEndpoint"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return bootstrap.Cloud{}, fmt.Errorf("reading AZURE_ENVIRONMENT_FILEPATH %s: %w", c.EnvironmentFile, err)
	}
	if !strings.EqualFold(file.Name, "akscustom") {
		return bootstrap.Cloud{}, nil
	}
	return bootstrap.Cloud{Environment: text, RegistrySuffix: file.ContainerRegistrySuffix, RepoDepot: file.RepoDepotEndpoint}, nil
}

// trusting returns a client for Azure. All its requests share one pool of
// connections: hundreds of launches go to one host.
func trusting(caFile string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return &http.Client{Transport: transport}, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", spelled("azure-ca-file"), err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a bare container has none: the file must do
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no PEM certificate", spelled("azure-ca-file"), caFile)
	}
	transport.TLSClientConfig.RootCAs = pool
	return &http.Client{Transport: transport}, nil
}
