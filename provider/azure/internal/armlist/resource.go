// SPDX-License-Identifier: Apache-2.0

package armlist

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// A Resource is one kind of resource in a resource group. The SDK could list it too, but
// fails on a whole page for one malformed row, and decodes every row again each time, which is
// most of the work in a large cluster.
type Resource struct {
	Kind     string // "virtual machines", for messages
	Provider string // Microsoft.Compute/virtualMachines
	Version  string // API version that the SDK's types are made for
}

// maxPages is more than any real list has: Azure returns some hundred rows a page.
const maxPages = 2000

// Rows reads all pages of the list of a resource group and returns the undecoded rows. An error
// on any page fails the list.
func (s Resource) Rows(ctx context.Context, client *arm.Client, subscription, group string) (rows []json.RawMessage, pages int, err error) {
	return allRows(ctx, client, s.URL(client, subscription, group, ""))
}

// All reads all pages of any list of Resource Manager. Rows that cannot be decoded to T are
// returned as malformed; the rest of the list counts.
func All[T any](ctx context.Context, client *arm.Client, d *Decoder, link string) (list []*T, malformed []json.RawMessage, err error) {
	rows, _, err := allRows(ctx, client, link)
	for _, row := range rows {
		item := new(T)
		if d.decode(row, item) != nil {
			malformed = append(malformed, row)
			continue
		}
		list = append(list, item)
	}
	return list, malformed, err
}

// Decode decodes one row.
func Decode[T any](d *Decoder, row json.RawMessage) (*T, error) {
	item := new(T)
	return item, d.decode(row, item)
}

// NameIn returns the name in a malformed row; empty when it has none.
func NameIn(row json.RawMessage) string { return TextIn(row, "name") }

// TextIn returns a string in a malformed row; empty when there is none.
func TextIn(row json.RawMessage, key string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(row, &fields) != nil {
		return ""
	}
	var value string
	if json.Unmarshal(fields[key], &value) != nil {
		return ""
	}
	return value
}

// allRows follows the links from page to page.
func allRows(ctx context.Context, client *arm.Client, next string) (rows []json.RawMessage, pages int, err error) {
	for seen := map[string]bool{}; next != ""; pages++ {
		if seen[next] || pages == maxPages {
			return nil, 0, fmt.Errorf("page %d leads back to an earlier one, or to ever more", pages)
		}
		seen[next] = true
		p, err := ReadPage(ctx, client, next)
		if err != nil {
			return nil, 0, err
		}
		rows, next = append(rows, p.Rows...), p.Next
	}
	return rows, pages, nil
}

// URL returns the URL of one resource of this kind, or of the list of all when the name is
// empty.
func (s Resource) URL(client *arm.Client, subscription, group, name string) string {
	parts := []string{"subscriptions", url.PathEscape(subscription), "resourceGroups", url.PathEscape(group), "providers", s.Provider}
	if name != "" {
		parts = append(parts, url.PathEscape(name))
	}
	return runtime.JoinPaths(client.Endpoint(), parts...) + "?api-version=" + s.Version
}

func ReadPage(ctx context.Context, client *arm.Client, link string) (page, error) {
	if err := checkHost(client.Endpoint(), link); err != nil {
		return page{}, err
	}
	req, err := runtime.NewRequest(ctx, http.MethodGet, link)
	if err != nil {
		return page{}, err
	}
	req.Raw().Header.Set("Accept", "application/json")
	resp, err := client.Pipeline().Do(req)
	if err != nil {
		return page{}, err
	}
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return page{}, runtime.NewResponseError(resp)
	}
	body, err := runtime.Payload(resp)
	if err != nil {
		return page{}, err
	}
	return splitPage(body)
}

// checkHost returns an error for links to another host: the request carries karve's credentials.
func checkHost(endpoint, link string) error {
	home, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	u, err := url.Parse(link)
	if err != nil {
		return fmt.Errorf("the link to the next page is no URL: %w", err)
	}
	if u.Scheme != home.Scheme || !strings.EqualFold(u.Host, home.Host) || u.User != nil {
		return fmt.Errorf("the next page is said to be at %s, which is not Azure Resource Manager", u.Host)
	}
	return nil
}
