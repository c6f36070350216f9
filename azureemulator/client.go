// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// URL is where the emulator listens: Resource Manager's endpoint, the token
// authority and the retail price host at once. It does not end in a slash.
func (s *Server) URL() string { return s.sub.url }

// SubscriptionID, TenantID, ClientID, Location and NodeResourceGroup are the
// options in force.
func (s *Server) SubscriptionID() string    { return s.sub.id }
func (s *Server) TenantID() string          { return s.sub.tenant }
func (s *Server) ClientID() string          { return s.sub.client }
func (s *Server) Location() string          { return s.sub.location }
func (s *Server) NodeResourceGroup() string { return s.sub.nodeGroup }

// ClusterResourceGroup is the group of the cluster itself.
func (s *Server) ClusterResourceGroup() string { return s.sub.cluster }

// MachinesPool is the agent pool in which AKS makes single machines.
func (s *Server) MachinesPool() string { return s.options.MachinesPool }

// SubnetID is the cluster's own subnet.
func (s *Server) SubnetID() string { return s.sub.nodeSubnetID() }

// CACertPEM is the certificate to trust; empty without a listener.
func (s *Server) CACertPEM() []byte {
	if s.listener == nil {
		return nil
	}
	return s.listener.authority.pem
}

// Cloud points the Azure SDK at the emulator.
func (s *Server) Cloud() cloud.Configuration {
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: s.sub.url + "/",
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: s.sub.url, Audience: "https://management.core.windows.net/"},
		},
	}
}

// Client is an HTTP client that trusts the emulator's authority or, without a
// listener, calls the emulator itself.
func (s *Server) Client() *http.Client {
	if s.listener == nil {
		return &http.Client{Transport: inProcess{s}}
	}
	return &http.Client{Transport: s.Transport()}
}

// Transport is a new transport that trusts the emulator's authority. It needs a
// listener.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.listener.authority.pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 100,
	}
}

// ClientOptions are what Resource Manager clients of the SDK need.
func (s *Server) ClientOptions() *arm.ClientOptions {
	return &arm.ClientOptions{ClientOptions: policy.ClientOptions{Cloud: s.Cloud(), Transport: s.Client()}}
}

// Credential is the SDK's workload identity, trading the emulator's federated
// token at the emulator's token endpoint. Without a listener its tokens come from the
// emulator directly.
func (s *Server) Credential() (azcore.TokenCredential, error) {
	if s.listener == nil {
		return issuer{s.identity}, nil
	}
	credential, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions:            policy.ClientOptions{Cloud: s.Cloud(), Transport: s.Client()},
		ClientID:                 s.sub.client,
		TenantID:                 s.sub.tenant,
		TokenFilePath:            s.listener.files.path(tokenFile),
		DisableInstanceDiscovery: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making a workload identity for the emulator: %w", err)
	}
	return credential, nil
}

// FederatedCredential is the SDK's workload identity in process: the federated token is
// traded at the emulator's token endpoint, whose faults it meets.
func (s *Server) FederatedCredential() (azcore.TokenCredential, error) {
	credential, err := azidentity.NewClientAssertionCredential(s.sub.tenant, s.sub.client,
		func(context.Context) (string, error) { return s.identity.assertion, nil },
		&azidentity.ClientAssertionCredentialOptions{
			ClientOptions:            policy.ClientOptions{Cloud: s.Cloud(), Transport: s.InProcess()},
			DisableInstanceDiscovery: true,
		})
	if err != nil {
		return nil, fmt.Errorf("making a federated credential for the emulator: %w", err)
	}
	return credential, nil
}

// Environ is the environment another process needs to use the emulator as its
// Azure, as "KEY=value". It needs a listener.
func (s *Server) Environ() []string {
	return []string{
		"AZURE_CLIENT_ID=" + s.sub.client,
		"AZURE_TENANT_ID=" + s.sub.tenant,
		"AZURE_SUBSCRIPTION_ID=" + s.sub.id,
		"AZURE_AUTHORITY_HOST=" + s.sub.url + "/",
		"AZURE_FEDERATED_TOKEN_FILE=" + s.listener.files.path(tokenFile),
		"AZURE_ENVIRONMENT_FILEPATH=" + s.listener.files.path(cloudFile),
		"SSL_CERT_FILE=" + s.listener.files.path(caFile),
	}
}

// SharedSubscriptionID is the subscription of the galleries that are not public.
// Machines start from them with a token of SharedTokenURL only.
func (s *Server) SharedSubscriptionID() string { return sharedSubscription }

// SharedTokenURL hands out tokens for the shared galleries.
func (s *Server) SharedTokenURL() string { return s.sub.url + "/sharedgallery/token" }
