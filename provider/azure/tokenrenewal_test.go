// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
)

// A token that is refused before its expiry makes one request fail, not an hour of them; while
// new ones are refused as well, few are requested.
//
// Rule REQUEST-10.
func TestRefusedTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, ClientID: "c11e17ed-0000-0000-0000-000000000243"}).small()
		credential, err := r.FederatedCredential()
		if err != nil {
			t.Fatal(err)
		}
		r.options.Credential = credential
		p := r.provider(t)
		list := func() error { _, err := p.List(t.Context()); return err }
		tokens := func() int { return r.Ledger().ByOperation["Identity.Token"] }
		if err := list(); err != nil || tokens() != 1 {
			t.Fatalf("%v, %d tokens", err, tokens())
		}
		r.ExpireTokens()
		time.Sleep(time.Minute) // until it is asked of Azure again
		if err := list(); err == nil || !strings.Contains(err.Error(), "AuthenticationToken") {
			t.Errorf("with a token that is too old: %v", err)
		}
		time.Sleep(time.Minute)
		if err := list(); err != nil || tokens() != 2 {
			t.Errorf("%v, %d tokens; want one renewed", err, tokens())
		}

		began := tokens()
		for range 60 {
			r.ExpireTokens()
			_ = list() // it cannot succeed
			time.Sleep(time.Second)
		}
		if n := tokens() - began; n < 2 || n > 7 {
			t.Errorf("%d tokens asked for in a minute", n)
		}
		time.Sleep(time.Minute)
		if err := list(); err != nil {
			t.Errorf("once new tokens are taken: %v", err)
		}
	})
}
