package azureemulator

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// rootFile has the authority's certificate and key, where things are kept: whoever trusts an
// emulator trusts the next one in its folder.
const rootFile = "authority.pem"

// rootServes is how much longer a kept authority must be good.
const rootServes = 30 * 24 * time.Hour

// root is the authority that is kept, or a new one.
func (s *Server) root() (root, error) {
	if !s.options.Keep {
		return newRoot()
	}
	path := filepath.Join(s.options.Dir, rootFile)
	raw, err := os.ReadFile(path)
	if err == nil {
		r, err := parseRoot(raw)
		if err != nil {
			return root{}, fmt.Errorf("reading the authority that is kept in %s: %w", path, err)
		}
		if time.Until(r.certificate.NotAfter) > rootServes {
			return r, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return root{}, fmt.Errorf("reading the authority that is kept: %w", err)
	}
	r, err := newRoot()
	if err != nil {
		return root{}, err
	}
	key, err := x509.MarshalECPrivateKey(r.key)
	if err != nil {
		return root{}, fmt.Errorf("writing the authority's key: %w", err)
	}
	both := bytes.Join([][]byte{r.pem(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})}, nil)
	if err := errors.Join(os.MkdirAll(s.options.Dir, 0o755), os.WriteFile(path, both, 0o600)); err != nil {
		return root{}, fmt.Errorf("keeping the authority: %w", err)
	}
	return r, nil
}

func parseRoot(raw []byte) (r root, err error) {
	certificate, rest := pem.Decode(raw)
	if certificate == nil {
		return root{}, errors.New("it has no certificate")
	}
	key, _ := pem.Decode(rest)
	if key == nil {
		return root{}, errors.New("it has no key")
	}
	if r.certificate, err = x509.ParseCertificate(certificate.Bytes); err != nil {
		return root{}, err
	}
	r.key, err = x509.ParseECPrivateKey(key.Bytes)
	return r, err
}
