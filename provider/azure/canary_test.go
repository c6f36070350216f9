// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// No secret is in what karve logs, returns or has kept on NodeClaims, whichever fault a launch meets: not
// the bootstrap token, as it is or encoded, not the token of karve's identity, and no signature of an
// operation.
//
// Rules PERMISSION-3, VM-9.
func TestSecretsAreInNoRecord(t *testing.T) {
	const token = "canary.0fedcba987654321"
	for _, fault := range []string{"", "late stock-out", "ResetBeforeSend", "ResetAfterCommit", "TruncatedBody", "Status500", "Status409", "TooManyRequests"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
				var records bytes.Buffer
				r.options.Log = slog.New(slog.NewJSONHandler(&records, &slog.HandlerOptions{Level: slog.LevelDebug}))
				r.options.BootstrapToken = func(context.Context) (string, error) { return token, nil }
				p := r.provider(t)
				r.strike(t, fault)
				c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
				for range 60 {
					in, err := p.Launch(t.Context(), c)
					fmt.Fprintf(&records, "%+v %v\n", in, err)
					if kept := in.LaunchState[azure.AnnotationOperation]; kept != "" {
						c.LaunchState = in.LaunchState
					}
					time.Sleep(max(in.RetryAfter, time.Second))
				}
				identity, err := r.options.Credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.core.windows.net//.default"}})
				if err != nil {
					t.Fatal(err)
				}
				for what, secret := range map[string]string{
					"bootstrap token": token, "its secret half": "0fedcba987654321", "the token in base64": base64.StdEncoding.EncodeToString([]byte(token)),
					"identity's token": identity.Token, "signature": azureemulator.OperationSignature,
				} {
					if at := strings.Index(records.String(), secret); at >= 0 {
						t.Errorf("%s in %q", what, records.String()[max(0, at-200):min(records.Len(), at+len(secret))])
					}
				}
				for range 600 {
					if p.TerminateByClaim(t.Context(), c) != nil {
						break
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// strike has the next requests meet a fault of the emulator's catalogue; with "late stock-out" the creation
// is accepted and fails.
func (r *region) strike(t *testing.T, fault string) {
	t.Helper()
	switch fault {
	case "":
	case "late stock-out":
		r.stockOut(t, onDemand("Standard_D4s_v5", "eastus-1"), true)
	default:
		if err := r.Inject(azureemulator.NamedFault{Name: fault, Times: 5}); err != nil {
			t.Fatal(err)
		}
	}
}
