// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tokenVersions are versions of the metadata service's token endpoint.
func tokenVersions() []string { return []string{"2018-02-01"} }

// token issues a token to an identity of the VM that asks. The SDK's
// ManagedIdentityCredential reaches it with MetadataOf as its transport; the address it asks
// is fixed, so that a process elsewhere cannot be pointed here.
func (ms *metadataService) token(r *request) (reply, error) {
	ms.clock.Lock()
	defer ms.clock.Unlock()
	v, complaint := ms.fromMachine(r, tokenVersions())
	if complaint != nil {
		return *complaint, nil
	}
	resource := r.query.Get("resource")
	if resource == "" {
		return refuseIdentity("Required query variable 'resource' is missing")
	}
	client, problem := v.identityFor(r, ms.sub.client)
	if problem != "" {
		return refuseIdentity(problem)
	}
	now := time.Now()
	life := int(tokenLife.Seconds())
	return ok(map[string]string{
		"access_token": ms.identity.newToken(now), "client_id": client, "resource": resource, "token_type": "Bearer",
		"expires_in": strconv.Itoa(life), "ext_expires_in": strconv.Itoa(life),
		"expires_on": strconv.FormatInt(now.Add(tokenLife).Unix(), 10), "not_before": strconv.FormatInt(now.Unix(), 10),
	})
}

// identityFor is the client id of the identity that is asked for, or what is wrong with the
// question. VMs of the system pool, where controllers run, have the emulator's own client.
func (v *vm) identityFor(r *request, own string) (client, problem string) {
	clients := map[string]string{} // by lower-case resource id
	for id := range object(object(v.document["identity"])["userAssignedIdentities"]) {
		id = strings.ToLower(id)
		clients[id] = uuidOf("client", id)
	}
	if v.system {
		clients[""] = own
	}
	wanted := r.query.Get("client_id")
	resource := strings.ToLower(r.query.Get("mi_res_id") + r.query.Get("msi_res_id")) // the second is its older name
	for id, c := range clients {
		if strings.EqualFold(c, wanted) || resource != "" && id == resource || wanted == "" && resource == "" && len(clients) == 1 {
			return c, ""
		}
	}
	if wanted == "" && resource == "" && len(clients) > 1 {
		return "", "Multiple user assigned identities exist, please specify the clientId / resourceId of the identity in the token request"
	}
	return "", "Identity not found"
}

func refuseIdentity(words string) (reply, error) {
	return answer(http.StatusBadRequest, nil, map[string]string{"error": "invalid_request", "error_description": words})
}
