// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is what clients trust, and the certificates it signs for one server: one that
// is good, and one that has expired.
type authority struct {
	pem             []byte
	pool            *x509.CertPool
	server, expired tls.Certificate
}

// newAuthority makes certificates for host and for the loopback names.
func newAuthority(host string) (*authority, error) {
	r, err := newRoot()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	a := &authority{pem: r.pem(), pool: x509.NewCertPool()}
	a.pool.AddCert(r.certificate)
	if a.server, err = r.sign(host, now.Add(-time.Hour), now.AddDate(1, 0, 0)); err != nil {
		return nil, err
	}
	if a.expired, err = r.sign(host, now.AddDate(-1, 0, 0), now.Add(-time.Hour)); err != nil {
		return nil, err
	}
	return a, nil
}

// root is an authority's own certificate with its key, which never leaves memory.
type root struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newRoot() (root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return root{}, fmt.Errorf("making the authority's key: %w", err)
	}
	now := time.Now()
	ca := certificateTemplate("karve Azure emulator CA", now.Add(-time.Hour), now.AddDate(1, 0, 0))
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return root{}, fmt.Errorf("signing the authority: %w", err)
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		return root{}, fmt.Errorf("reading the authority back: %w", err)
	}
	return root{ca, key}, nil
}

func (r root) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.certificate.Raw})
}

func (r root) sign(host string, from, to time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the server's key: %w", err)
	}
	leaf := certificateTemplate("karve Azure emulator", from, to)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames = []string{"localhost"}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPAddresses = append(leaf.IPAddresses, ip)
	} else if host != "" {
		leaf.DNSNames = append(leaf.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, r.certificate, &key.PublicKey, r.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing the server's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, r.certificate.Raw}, PrivateKey: key}, nil
}

func certificateTemplate(name string, from, to time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    from,
		NotAfter:     to,
	}
}
