package azureemulator

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// sharedSubscription is AKS's own, with the galleries it shares with single customers.
const sharedSubscription = "109a5e88-712a-48ae-9078-9ca8b3c81345"

// SharedSubscriptionID is the subscription of the galleries that are not public.
// Machines start from them with a token of SharedTokenURL only.
func (s *Server) SharedSubscriptionID() string { return sharedSubscription }

// SharedTokenURL hands out tokens for the shared galleries.
func (s *Server) SharedTokenURL() string { return s.url + "/sharedgallery/token" }

// sharedName is what AKS calls a gallery that the public knows by a longer name.
func sharedName(gallery string) string {
	name, _, _ := strings.Cut(gallery, "-")
	return name
}

// issueSharedToken answers in the form of the SDK's own struct, as AKS's server does.
func (s *Server) issueSharedToken(r *request) (reply, error) {
	scope := r.query.Get("scope")
	if !strings.HasSuffix(scope, "/.default") {
		return reply{}, badRequest("InvalidScope", "The scope '%s' is not of the form <audience>/.default.", scope)
	}
	now := time.Now().UTC()
	return ok(map[string]any{
		"Token": s.identity.issue("shared-"+s.chance.uuid(), now), "ExpiresOn": now.Add(tokenLife), "RefreshOn": now.Add(tokenLife / 2),
	})
}

// authoriseShared refuses to start a machine from a shared gallery without the right to.
func (s *Server) authoriseShared(r *request, w wish) error {
	id := w.spec.Properties.StorageProfile.ImageReference.ID
	if !strings.HasPrefix(strings.ToLower(id), "/subscriptions/"+sharedSubscription+"/") {
		return nil
	}
	other := &http.Request{Header: http.Header{"Authorization": r.http.Header["X-Ms-Authorization-Auxiliary"]}}
	if s.identity.authorise(other) == nil {
		return nil
	}
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client has permission to perform action 'Microsoft.Compute/galleries/images/versions/read' on scope '%s', however the current tenant '%s' is not authorized to access linked subscription '%s'.",
		id, s.options.TenantID, sharedSubscription)
}

// sharedImage finds the definition of a shared image id,
// /subscriptions/<AKS's>/resourceGroups/<group>/providers/Microsoft.Compute/galleries/<gallery>/images/<name>/versions/<version>,
// if that version of it exists.
func (s *Server) sharedImage(id string) (image, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 12 || !strings.EqualFold(segments[6], "galleries") || !strings.EqualFold(segments[8], "images") {
		return image{}, false
	}
	for _, d := range s.images {
		if !strings.EqualFold(sharedName(d.Gallery), segments[7]) || !strings.EqualFold(d.Name, segments[9]) {
			continue
		}
		exists := slices.ContainsFunc(d.versions, func(v imageVersion) bool { return v.name == segments[11] })
		return d.image, exists
	}
	return image{}, false
}

// listNodeImages tells the newest version of every image, and no other.
func (s *Server) listNodeImages(r *request) (reply, error) {
	if err := s.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	values := []any{}
	for _, d := range s.images {
		newest := d.versions[len(d.versions)-1].name
		os := sharedName(d.Gallery)
		values = append(values, map[string]string{"fullName": os + "-" + d.Name + "-" + newest, "os": os, "sku": d.Name, "version": newest})
	}
	return ok(map[string]any{"value": values})
}
