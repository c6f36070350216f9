// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// SharedGallery configures the galleries that AKS shares with single customers only. The zero
// value does not use them.
type SharedGallery struct {
	// SubscriptionID is AKS's subscription with the galleries.
	SubscriptionID string
	// TokenURL issues tokens for that subscription's tenant, which are sent when Compute creates
	// a virtual machine. It may be empty if AKS creates them.
	TokenURL string
}

func (g SharedGallery) used() bool { return g != SharedGallery{} }

// Validate returns what is wrong with the settings. TokenURL is required if Compute creates the
// virtual machines.
func (g SharedGallery) Validate(computeCreates bool) error {
	if !g.used() {
		return nil
	}
	if g.SubscriptionID == "" {
		return errors.New("option SharedGallery.SubscriptionID is required with a token server")
	}
	if g.TokenURL == "" && !computeCreates {
		return nil
	}
	if u, err := url.Parse(g.TokenURL); err != nil || u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("option SharedGallery.TokenURL: %q is not an absolute URL", g.TokenURL)
	}
	return nil
}

// sharedGallery is the gallery that AKS shares with single customers. karve may create virtual
// machines from it but not list it; AKS lists its versions instead, and only the newest version
// of each image. Versions seen before are remembered: otherwise none would ever be a week old,
// as AKS publishes one each week.
type sharedGallery struct {
	arm                    *arm.Client
	subscription, location string
	owner                  string // subscription of the galleries
	now                    func() time.Time

	mu   sync.Mutex
	seen map[definition][]imageVersion
}

func (*sharedGallery) listsAll() bool { return false }

func (g *sharedGallery) id(d definition, version string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/galleries/%s/images/%s/versions/%s",
		g.owner, strings.Replace(d.os, "AKS", "AKS-", 1), d.os, d.name, version)
}

const nodeImagesVersion = "2026-04-02-preview" // no stable version has the list

// nodeImages is one page of AKS's list of node image versions.
type nodeImages struct {
	Value []struct {
		OS      string `json:"os"`
		SKU     string `json:"sku"`
		Version string `json:"version"`
	} `json:"value"`
	NextLink string `json:"nextLink"`
}

// maxImagePages is far more than AKS's list has.
const maxImagePages = 100

func (g *sharedGallery) versions(ctx context.Context, d definition) ([]imageVersion, error) {
	next := runtime.JoinPaths(g.arm.Endpoint(), "subscriptions", url.PathEscape(g.subscription),
		"providers/Microsoft.ContainerService/locations", url.PathEscape(g.location), "nodeImageVersions") + "?api-version=" + nodeImagesVersion
	var listed []imageVersion
	for range maxImagePages {
		page, err := g.page(ctx, next)
		if err != nil {
			return nil, err
		}
		listed = append(listed, page.of(d)...)
		if next = page.NextLink; next == "" {
			return g.withEarlier(d, listed), nil
		}
	}
	return nil, fmt.Errorf("the list of node images did not end after %d pages", maxImagePages)
}

// of returns the versions of one definition.
func (page nodeImages) of(d definition) (listed []imageVersion) {
	for _, v := range page.Value {
		if v.OS == d.os && strings.EqualFold(v.SKU, d.name) && v.Version != "" {
			listed = append(listed, imageVersion{version: v.Version})
		}
	}
	return listed
}

// withEarlier adds the versions of earlier lists to those of the last one. An earlier version that
// is newer than all of the last list was withdrawn, and AKS removes a version a year after it
// was built: both are forgotten.
func (g *sharedGallery) withEarlier(d definition, listed []imageVersion) []imageVersion {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := slices.Clone(listed)
	for _, b := range g.seen[d] {
		b.unlisted = true
		same := func(t imageVersion) bool { return t.version == b.version }
		newer := func(t imageVersion) bool { return later(t, b) }
		withdrawn := len(listed) > 0 && !slices.ContainsFunc(listed, newer)
		if !withdrawn && !tooOld(b, g.now()) && !slices.ContainsFunc(listed, same) {
			known = append(known, b)
		}
	}
	g.seen[d] = known
	return slices.Clone(known)
}

func (g *sharedGallery) page(ctx context.Context, address string) (nodeImages, error) {
	var page nodeImages
	req, err := runtime.NewRequest(ctx, http.MethodGet, address)
	if err != nil {
		return page, err
	}
	resp, err := g.arm.Pipeline().Do(req)
	if err != nil {
		return page, err
	}
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return page, runtime.NewResponseError(resp)
	}
	body, err := runtime.Payload(resp)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return page, fmt.Errorf("reading the list of node images: %w", err)
	}
	return page, nil
}
