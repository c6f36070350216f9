package azureemulator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// URL is where the emulator listens: Resource Manager's endpoint, the token
// authority and the retail price host at once. It does not end in a slash.
func (s *Server) URL() string { return s.url }

// SubscriptionID, TenantID, ClientID, Location and NodeResourceGroup are the
// options in force.
func (s *Server) SubscriptionID() string    { return s.options.SubscriptionID }
func (s *Server) TenantID() string          { return s.options.TenantID }
func (s *Server) ClientID() string          { return s.options.ClientID }
func (s *Server) Location() string          { return s.options.Location }
func (s *Server) NodeResourceGroup() string { return s.options.NodeResourceGroup }

// ClusterResourceGroup is the group of the cluster itself.
func (s *Server) ClusterResourceGroup() string { return s.options.ClusterName }

// MachinesPool is the agent pool in which AKS makes single machines.
func (s *Server) MachinesPool() string { return s.options.MachinesPool }

// SubnetID is the cluster's own subnet.
func (s *Server) SubnetID() string {
	return s.subnetID(s.options.NodeResourceGroup, s.vnetName(), "aks-subnet")
}

// CACertPEM is the certificate to trust; empty without a listener.
func (s *Server) CACertPEM() []byte {
	if s.authority == nil {
		return nil
	}
	return s.authority.pem
}

// Cloud points the Azure SDK at the emulator.
func (s *Server) Cloud() cloud.Configuration {
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: s.url + "/",
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: s.url, Audience: "https://management.core.windows.net/"},
		},
	}
}

// Client is an HTTP client that trusts the emulator's authority or, without a
// listener, calls the emulator itself.
func (s *Server) Client() *http.Client {
	if s.http == nil {
		return &http.Client{Transport: inProcess{s}}
	}
	return &http.Client{Transport: s.Transport()}
}

// Transport is a new transport that trusts the emulator's authority. It needs a
// listener.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.authority.pool, MinVersion: tls.VersionTLS12},
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
	if s.http == nil {
		return issuer{s}, nil
	}
	credential, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions:            policy.ClientOptions{Cloud: s.Cloud(), Transport: s.Client()},
		ClientID:                 s.options.ClientID,
		TenantID:                 s.options.TenantID,
		TokenFilePath:            s.files.path(tokenFile),
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
	credential, err := azidentity.NewClientAssertionCredential(s.options.TenantID, s.options.ClientID,
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
		"AZURE_CLIENT_ID=" + s.options.ClientID,
		"AZURE_TENANT_ID=" + s.options.TenantID,
		"AZURE_SUBSCRIPTION_ID=" + s.options.SubscriptionID,
		"AZURE_AUTHORITY_HOST=" + s.url + "/",
		"AZURE_FEDERATED_TOKEN_FILE=" + s.files.path(tokenFile),
		"AZURE_ENVIRONMENT_FILEPATH=" + s.files.path(cloudFile),
		"SSL_CERT_FILE=" + s.files.path(caFile),
	}
}

// files is the folder other processes find the emulator by.
type files struct {
	dir string
	own bool // made by us, and so removed by us
}

const (
	caFile    = "ca.pem"
	tokenFile = "token"
	cloudFile = "azure.json"
)

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) remove() error {
	if !f.own {
		return nil
	}
	return os.RemoveAll(f.dir)
}

func (s *Server) writeFiles() error {
	dir, own := s.options.Dir, false
	if dir == "" {
		temporary, err := os.MkdirTemp("", "azure-emulator-")
		if err != nil {
			return fmt.Errorf("making a folder for the certificate and token: %w", err)
		}
		dir, own = temporary, true
	}
	s.files = files{dir: dir, own: own}
	// The names that go-autorest and AKS nodes use for a cloud of one's own.
	environment, err := json.MarshalIndent(map[string]string{
		"name":                    "emulator",
		"resourceManagerEndpoint": s.url,
		"activeDirectoryEndpoint": s.url + "/",
		"tokenAudience":           "https://management.core.windows.net/",
	}, "", "  ")
	return errors.Join(err,
		os.MkdirAll(dir, 0o755),
		os.WriteFile(s.files.path(caFile), s.authority.pem, 0o644),
		os.WriteFile(s.files.path(tokenFile), []byte(s.identity.assertion), 0o600),
		os.WriteFile(s.files.path(cloudFile), environment, 0o644))
}
