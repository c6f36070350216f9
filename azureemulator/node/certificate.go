// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/klog/v2"
)

const (
	// certificateWait is how long a kubelet waits for its request to be signed.
	certificateWait = 15 * time.Minute
	// idleConnection is short: a node that has joined has nothing more to say,
	// and thousands of open connections would burden the API server.
	idleConnection = 2 * time.Second
	requestTimeout = 30 * time.Second
)

// connect makes a client of the payload's API server that trusts the payload's
// authority only. Its transport is its own, so nothing outlives the node.
func (g *guest) connect(identity *tls.Certificate) (*rest.Config, *http.Client, error) {
	server := &rest.Config{Host: "https://" + g.payload.Server, QPS: -1}
	if api := g.os.options.API; api != nil {
		return server, &http.Client{Transport: api}, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(g.payload.CA) {
		return nil, nil, errors.New("KUBE_CA_CRT holds no usable certificate")
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if identity != nil {
		config.Certificates = []tls.Certificate{*identity}
	}
	transport := &http.Transport{
		DialContext:         g.os.options.dial,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     idleConnection,
		ForceAttemptHTTP2:   true,
	}
	return server, &http.Client{Transport: transport}, nil
}

// dial goes where the network around the VM leads.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if to, ok := o.Routes[address]; ok {
		address = to
	}
	return (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, network, address)
}

// certificate trades the bootstrap token for the client certificate of a node, as the
// kubelet's TLS bootstrap does. It waits for the request to be approved and
// signed.
func (g *guest) certificate(ctx context.Context, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	config, httpClient, err := g.connect(nil)
	if err != nil {
		return nil, err
	}
	defer httpClient.CloseIdleConnections()
	httpClient.Transport = bearer{token: g.payload.Token, next: httpClient.Transport}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building a bootstrap client: %w", err)
	}
	// The library would log each step of each node.
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), certificateWait)
	defer cancel()
	return requestCertificate(ctx, client, nodeName(g.vm, g.payload.Kubelet), key)
}

func requestCertificate(ctx context.Context, client kubernetes.Interface, name string, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("writing a certificate request: %w", err)
	}
	requestName, err := requestName(key)
	if err != nil {
		return nil, err
	}
	created, uid, err := csr.RequestCertificateWithContext(ctx, client,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), requestName,
		certificatesv1.KubeAPIServerClientKubeletSignerName, nil,
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		return nil, fmt.Errorf("requesting a client certificate: %w", err)
	}
	issued, err := csr.WaitForCertificate(ctx, client, created, uid)
	if err != nil {
		return nil, &refusedError{fmt.Errorf("waiting for the client certificate: %w", err)}
	}
	pair, err := assemble(issued, key)
	if err != nil {
		return nil, &refusedError{err}
	}
	return pair, nil
}

// refusedError reports that a request was accepted but came to nothing; the next
// attempt needs another key, as the request is named after it.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// requestName is the same for the same key, so that a kubelet that starts again
// finds its request instead of adding one.
func requestName(key *ecdsa.PrivateKey) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", fmt.Errorf("encoding the node's public key: %w", err)
	}
	sum := sha256.Sum256(public)
	return "node-csr-" + hex.EncodeToString(sum[:]), nil
}

func assemble(certificate []byte, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the node's key: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	if err != nil {
		return nil, fmt.Errorf("reading the issued certificate: %w", err)
	}
	return &pair, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the node's key: %w", err)
	}
	return key, nil
}

// bearer puts a token on every request. client-go's own way would keep one
// transport per token for ever.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// CloseIdleConnections lets http.Client reach the real transport.
func (b bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
