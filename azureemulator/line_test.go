// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// In process a struck request has the error that net/http would have, and no server is met
// by those that cannot get there.
func TestLinesThatFail(t *testing.T) {
	inBubble(t, Options{SystemNodes: -1}, func(b *bubble) {
		is := map[lineFault]func(error) bool{
			tlsRefused:         func(err error) bool { var a tls.AlertError; return errors.As(err, &a) },
			certificateExpired: expired,
			nameUnknown:        func(err error) bool { var d *net.DNSError; return errors.As(err, &d) && d.IsNotFound },
		}
		for f, right := range is {
			b.inject(NamedFault{Name: string(f)})
			if _, _, err := b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm")); err == nil || !right(err) || len(b.State().VMs) != 0 {
				t.Errorf("%s: %v, and %d VMs", f, err, len(b.State().VMs))
			}
			if code, _, err := b.try("GET", b.path(vmKind, "vm"), ""); err != nil || code != http.StatusNotFound {
				t.Errorf("after %s: %d %v", f, code, err)
			}
		}
		b.inject(NamedFault{Name: string(goAway), Target: "/virtualMachines/", Times: 3})
		for i, want := range []int{1, 1, 2} { // every other one was carried out
			name := "vm" + string(rune('0'+i))
			if _, _, err := b.try("PUT", b.path(vmKind, name), b.vmBody(name)); !errors.Is(err, errGoAway) || len(b.State().VMs) != want {
				t.Errorf("request %d: %v, and %d VMs, want %d", i, err, len(b.State().VMs), want)
			}
		}
	})
}

func expired(err error) bool {
	var c x509.CertificateInvalidError
	return errors.As(err, &c) && c.Reason == x509.Expired
}

// On the wire the connection of a struck request ends, and the next one fails as the fault
// says; the one after it stands.
func TestConnectionsThatFail(t *testing.T) {
	s, err := Start(t.Context(), Options{SystemNodes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	get := func(c *http.Client) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/retail/prices?$filter=armRegionName%20eq%20'eastus'", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for f, says := range map[lineFault]string{
		tlsRefused: "tls: internal error", certificateExpired: "certificate has expired", nameUnknown: "", goAway: "GOAWAY",
	} {
		t.Run(string(f), func(t *testing.T) {
			c := s.Client()
			if err := get(c); err != nil {
				t.Fatal(err)
			}
			if err := s.Inject(NamedFault{Name: string(f), Target: "/retail/prices$"}); err != nil {
				t.Fatal(err)
			}
			first := get(c) // net/http may have tried again by itself
			if first == nil {
				t.Fatal("the struck request was answered")
			}
			told := first.Error()
			if f != goAway {
				if second := get(c); second != nil {
					told += "; " + second.Error()
				}
			}
			if !strings.Contains(told, says) {
				t.Errorf("a client is told %q, want %q", told, says)
			}
			if err := get(c); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
