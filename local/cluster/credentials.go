// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates last. Every Start makes new ones.
const validity = 365 * 24 * time.Hour

// pair is a certificate with its key, as objects for signing and as PEM for files.
type pair struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
	keyPEM  []byte
}

// credentials are all keys of a cluster. etcd trusts an authority of its own: with the
// cluster's, any kubelet that was given a certificate could read every secret.
type credentials struct {
	cluster, etcd                             *pair // authorities
	server, etcdServer                        *pair // serve HTTPS
	etcdClient                                *pair // the API server's way into etcd
	admin, controllerManager, scheduler, kwok *pair // clients of the API server
	serviceAccountKey, serviceAccountPub      []byte
}

func newCredentials() (*credentials, error) {
	m := &maker{now: time.Now()}
	c := &credentials{}
	c.cluster = m.authority("karve-cluster")
	c.etcd = m.authority("karve-etcd")
	c.server = m.server(c.cluster, "kube-apiserver")
	c.etcdServer = m.server(c.etcd, "etcd")
	c.etcdClient = m.client(c.etcd, "kube-apiserver")
	c.admin = m.client(c.cluster, "karve-admin", "system:masters")
	c.controllerManager = m.client(c.cluster, "system:kube-controller-manager")
	c.scheduler = m.client(c.cluster, "system:kube-scheduler")
	c.kwok = m.client(c.cluster, kwokUser)
	c.serviceAccountKey, c.serviceAccountPub = m.keyPair()
	return c, m.err
}

// write puts every pair into dir as name.crt and name.key.
func (c *credentials) write(dir string) error {
	files := map[string][]byte{
		"service-account.key": c.serviceAccountKey,
		"service-account.pub": c.serviceAccountPub,
	}
	for name, p := range map[string]*pair{
		"ca": c.cluster, "etcd-ca": c.etcd, "server": c.server,
		"etcd-server": c.etcdServer, "etcd-client": c.etcdClient,
	} {
		files[name+".crt"], files[name+".key"] = p.certPEM, p.keyPEM
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// maker signs certificates. Its first error is kept, and everything after it is empty,
// so that a list of certificates reads as a list.
type maker struct {
	now time.Time
	err error
}

func (m *maker) authority(name string) *pair {
	return m.sign(nil, &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	})
}

// server certificates have every name by which a local client may call this computer, the
// addresses pods would use, and the names that nodes use.
func (m *maker) server(ca *pair, name string) *pair {
	return m.sign(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", publicName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(kubernetesServiceIP)},
	})
}

func (m *maker) client(ca *pair, user string, groups ...string) *pair {
	return m.sign(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// sign completes a certificate from its template. Without an authority it signs itself.
func (m *maker) sign(ca *pair, template *x509.Certificate) *pair {
	p := &pair{}
	if m.err != nil {
		return p
	}
	if err := p.fill(ca, template, m.now); err != nil {
		m.err = fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	return p
}

func (p *pair) fill(ca *pair, template *x509.Certificate, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if ca == nil {
		ca = &pair{cert: template, key: key}
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	template.NotBefore = now.Add(-time.Hour) // clocks of VMs jump
	template.NotAfter = now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	p.key = key
	p.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.keyPEM, err = keyPEM(key)
	return err
}

// keyPair makes the key that signs service account tokens.
func (m *maker) keyPair() (private, public []byte) {
	if m.err != nil {
		return nil, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		m.err = err
		return nil, nil
	}
	if private, err = keyPEM(key); err != nil {
		m.err = err
		return nil, nil
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		m.err = err
		return nil, nil
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
